"""The agent has a thread for each broker of a query. A thread without a range to read ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from kfetch.agent import broker_thread
from kfetch.agent.budget import Budget
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_query import SharedQuery
from kfetch.fetch.progress import RangeProgress
from tests.kfetch.agent.helpers import T0, T1, expected, options, part, pending, read, wait_until
from tests.kfetch.wire.little import LittleKafka

QUERY, THREAD = "retiring", "retiring 1"
"""A query's id, and the name of its thread for broker 1."""


@pytest.fixture
def query(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedQuery]:
    """A query whose threads end after 50 ms without a range. Only its own ``close`` ends the
    query."""
    monkeypatch.setattr(broker_thread, "_IDLE_MIN_S", 0.05)
    short_lease = options(kafka, kfetch__agent__lease="50ms")
    with closing(SharedQuery(QUERY, short_lease, budget)) as opened:
        yield opened


def running_threads() -> list[str]:
    """The names of the query's threads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(QUERY)]


def test_a_thread_without_a_range_ends(kafka: LittleKafka, query: SharedQuery) -> None:
    """The thread closes its session and ends after the lease. The query's totals stay, and the next
    read starts a new thread."""
    for reads in (1, 2):
        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
        assert wait_until(lambda: not running_threads())

        assert [] == kafka.sessions()
        assert () == query.status().sessions
        assert reads == query.stats().sessions_opened == query.status().totals.sessions_opened


def test_a_moved_broker_keeps_one_thread(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A broker moves to a new address while a task reads from it. The new address gets a thread and
    a session, and those of the old address end."""
    node = kafka.nodes[1]
    with closing(Inbox(query.reader_of, budget, lambda: False)) as inbox:
        for moves in (1, 2, 3):
            assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
            node.stop()
            node.move()
            node.start()
            inbox.add([RangeProgress.of(part(kafka, T1, 12, 2000))])
            assert wait_until(lambda n=moves + 1: query.stats().sessions_opened == n)
            assert wait_until(lambda: len(query.status().sessions) == 1)

            assert f"127.0.0.1:{node.port}" in query.status().sessions[0].broker
            assert wait_until(lambda: [THREAD] == running_threads())


def test_a_thread_with_a_range_does_not_end(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A thread stays while it has a range, even if the task does not take the batch that
    arrived."""
    with closing(Inbox(query.reader_of, budget, lambda: False)) as inbox:
        inbox.add([RangeProgress.of(part(kafka, T0))])
        assert wait_until(lambda: pending(inbox) == 1)
        (thread,) = query._running
        time.sleep(0.2)  # four leases

        assert not thread.retired
        assert [THREAD] == running_threads()


def test_no_record_is_lost_when_threads_end_and_start(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads end after two idle milliseconds. Four tasks at a time read many ranges, and each gets
    every record of its range."""
    monkeypatch.setattr(broker_thread, "_IDLE_MIN_S", 0.002)
    no_lease = options(kafka, kfetch__agent__lease="0")
    ranges = [part(kafka, tp, start, start + 2) for start in range(0, 12, 2) for tp in (T0, T1)] * 2
    with closing(SharedQuery(QUERY, no_lease, budget)) as query, ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda item: read(query, item), ranges))

        assert [expected(kafka, item) for item in ranges] == rows
        assert wait_until(lambda: not running_threads())
    assert 0 == budget.used


def test_dropping_a_range_starts_no_thread(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A task drops a range that it never added, and asks when it was requested. No thread
    starts."""
    progress = RangeProgress.of(part(kafka, T0))
    with closing(Inbox(query.reader_of, budget, lambda: False)) as inbox:
        inbox.drop(progress)
        assert 0.0 == inbox.requested_since(progress)

    assert [] == running_threads()
