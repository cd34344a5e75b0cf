"""A task's inbox: what it raises while nothing arrives."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from kfetch.agent.budget import Budget
from kfetch.agent.channel import ChannelClosed
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_query import SharedQuery


def test_a_closed_worker_ends_its_read(query: SharedQuery, budget: Budget) -> None:
    """While nothing arrives, the inbox checks its worker, and raises once the worker has closed."""
    with (
        closing(Inbox(query.reader_of, budget, lambda: True)) as inbox,
        pytest.raises(ChannelClosed),
    ):
        inbox.next(time.monotonic() + 60, time.monotonic() + 60)
