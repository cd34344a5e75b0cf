"""Gives orders to a leader on another host, through the inbox of ``sharedState``.

An order is carried out once. Its command withdraws it if no leader takes it in time. A leader that
has taken it carries it out, and if it dies, the next one does.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from kfetch_jobs.config import Project
from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise.leadership import Shared
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.shared_state import SharedOrder
from kfetch_jobs.supervise.state_machine import Order
from kfetch_jobs.util.process import wait_until

_REPLY_WITHIN_S = 75.0
"""If the leader dies, another one takes over within a minute, and carries the order out."""
_POLL_S = 0.5


def give_elsewhere(
    project: Project, jobs: Sequence[str], order: Order, *, wait: bool
) -> Sequence[OrderReply]:
    """Put an order into the inbox, and return the leader's replies.

    Without ``wait`` it returns at once, and the next leader carries the order out. Raises
    SupervisorError if no leader takes it, or replies.
    """
    shared = Shared.of(project)
    assert shared is not None
    orders = [SharedOrder(id=uuid.uuid4().hex, job=job, order=order) for job in jobs]
    ids = {one.id for one in orders}
    shared.change_inbox(lambda inbox: inbox.with_orders(orders))
    replies: dict[str, str] = {}

    def replied() -> bool:
        replies.update(shared.replies())
        return ids <= replies.keys()

    if wait and not wait_until(replied, time.monotonic() + _REPLY_WITHIN_S, _POLL_S):
        _give_up(shared, ids - replies.keys())
    return [OrderReply.from_text(replies[one.id]) for one in orders if one.id in replies]


def _give_up(shared: Shared, ids: set[str]) -> None:
    left = shared.change_inbox(lambda inbox: inbox.withdrawn(ids)).orders
    if any(one.id in ids for one in left):
        raise SupervisorError(
            "the leader has taken the order, and did not reply: kfetch status shows what it did"
        )
    raise SupervisorError(
        f"no leader has taken the order within {_REPLY_WITHIN_S:.0f} s, and none carries it out "
        "later: kfetch status shows who leads"
    )
