"""Gives orders to a leader on another host, through the inbox of ``sharedState``.

An order is carried out once. If a leader dies before, the next one carries it out. Each order has
an end, so no leader carries it out after a command that waits for its reply has given up.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from kfetch_jobs.config import Project
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise.job_state import Order
from kfetch_jobs.supervise.leadership import Shared
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.shared_state import SharedOrder
from kfetch_jobs.util.process import wait_until

_VALID_S = 60.0
"""If the leader dies, another one takes over within this time, and carries the order out."""
_VALID_LATER_S = 86_400.0
"""The same for an order that is given while nobody leads."""
_REPLY_WITHIN_S = 75.0
"""The clocks of hosts may differ by a few seconds, and a leader may be slow."""
_POLL_S = 0.5


def give_elsewhere(
    project: Project, jobs: Sequence[str], order: Order, *, wait: bool
) -> Sequence[OrderReply]:
    """Put an order into the inbox, and return the leader's replies.

    Without ``wait`` it returns at once, and the next leader carries the order out. Raises
    SupervisorError if no leader replies.
    """
    shared = Shared.of(project)
    assert shared is not None
    ends_s = time.time() + (_VALID_S if wait else _VALID_LATER_S)
    orders = [SharedOrder(id=uuid.uuid4().hex, job=job, order=order, ends_s=ends_s) for job in jobs]
    try:
        shared.change_inbox(lambda inbox: inbox.with_orders(orders))
    except SupervisorError as error:  # perhaps only the answer of the store is lost
        if not _given(shared, orders, f"{order} {', '.join(jobs)}"):
            raise error from None
    replies: dict[str, str] = {}
    trouble = ""

    def replied() -> bool:
        nonlocal trouble
        try:
            replies.update(shared.replies())
            trouble = ""
        except SupervisorError as error:  # the next look may be answered
            trouble = error.message
        return all(one.id in replies for one in orders)

    if wait and not wait_until(replied, time.monotonic() + _REPLY_WITHIN_S, _POLL_S):
        left = ", ".join(one.job for one in orders if one.id not in replies)
        raise SupervisorError(_no_reply(f"{order} {left}", trouble))
    return [OrderReply.from_text(replies[one.id]) for one in orders if one.id in replies]


def _given(shared: Shared, orders: Sequence[SharedOrder], what: str) -> bool:
    """Returns whether orders are in the inbox, or have a reply. Raises SupervisorError."""
    left = {one.id for one in orders}
    try:
        left -= {one.id for one in shared.inbox().orders}
        return not left or left <= shared.replies().keys()
    except SupervisorError as error:
        raise SupervisorError(_no_reply(what, error.message)) from None


def _no_reply(what: str, trouble: str) -> str:
    if trouble:
        return f"nobody knows whether a leader has carried out {what}: {trouble}"
    return (
        f"no leader has carried out {what} within {_VALID_S:.0f} s, and none does it later: "
        "kfetch status shows who leads"
    )
