"""Gives orders to a leader on another host, through the inbox of ``sharedState``.

A leader carries out each order once. If it dies before that, the next leader does. An order expires
before the command that waits for its reply gives up. So no leader carries it out later.
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

_EXPIRES_S = 60.0
"""If the leader dies, another host leads within this time, and carries the order out."""
_UNAWAITED_EXPIRES_S = 86_400.0
"""The same for an order without a wait, which is given while nobody leads."""
_REPLY_WITHIN_S = 75.0
"""Longer than an order lives: clocks of hosts may differ, and a leader may be slow."""
_POLL_S = 0.5


def give_to_leader(
    project: Project, jobs: Sequence[str], order: Order, *, wait: bool
) -> Sequence[OrderReply]:
    """Put an order into the inbox, and return the leader's replies.

    Without ``wait`` it returns at once, and the next leader carries the order out. Raises
    SupervisorError if no leader replies.
    """
    shared = Shared.of(project)
    assert shared is not None
    ends_s = time.time() + (_EXPIRES_S if wait else _UNAWAITED_EXPIRES_S)
    orders = [SharedOrder(id=uuid.uuid4().hex, job=job, order=order, ends_s=ends_s) for job in jobs]
    try:
        shared.change_inbox(lambda inbox: inbox.with_orders(orders))
    except SupervisorError as error:  # the store may have written them, and only its answer is lost
        if not _are_written(shared, orders, f"{order} {', '.join(jobs)}"):
            raise error from None
    replies: dict[str, str] = {}
    last_error = ""

    def replied() -> bool:
        nonlocal last_error
        try:
            replies.update(shared.replies())
            last_error = ""
        except SupervisorError as error:  # the store may answer the next time
            last_error = error.message
        return all(one.id in replies for one in orders)

    if wait and not wait_until(replied, time.monotonic() + _REPLY_WITHIN_S, _POLL_S):
        left = ", ".join(one.job for one in orders if one.id not in replies)
        raise SupervisorError(_no_reply(f"{order} {left}", last_error))
    return [OrderReply.from_text(replies[one.id]) for one in orders if one.id in replies]


def _are_written(shared: Shared, orders: Sequence[SharedOrder], what: str) -> bool:
    """Returns whether all orders are in the inbox, or have a reply. Raises SupervisorError."""
    left = {one.id for one in orders}
    try:
        left -= {one.id for one in shared.inbox().orders}
        return not left or left <= shared.replies().keys()
    except SupervisorError as error:
        raise SupervisorError(_no_reply(what, error.message)) from None


def _no_reply(what: str, last_error: str) -> str:
    if last_error:
        return f"kfetch can't tell whether a leader has carried out {what}: {last_error}"
    return (
        f"no leader has carried out {what} within {_EXPIRES_S:.0f} s, and none will: "
        "kfetch status shows who leads"
    )
