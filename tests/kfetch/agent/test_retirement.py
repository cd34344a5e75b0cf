"""A broker's thread ends when no task reads from the broker. The totals remain."""

from __future__ import annotations

import threading
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


@pytest.fixture
def leased(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedQuery]:
    """A query with a lease of a moment, which no sweep closes as a whole."""
    monkeypatch.setattr(broker_thread, "_IDLE_MIN_S", 0.05)
    short_lease = options(kafka, kfetch__agent__lease="50ms")
    with closing(SharedQuery("leased", short_lease, budget)) as query:
        yield query


def threads() -> list[str]:
    """The names of the query's threads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("leased ")]


def test_an_idle_thread_ends(kafka: LittleKafka, leased: SharedQuery) -> None:
    """After the lease without a range, a broker's thread and session end. The totals stay, and the
    next read starts another thread."""
    for reads in (1, 2):
        assert expected(kafka, part(kafka, T0)) == read(leased, part(kafka, T0))
        assert wait_until(lambda: not threads())

        assert [] == kafka.sessions()
        assert () == leased.status().sessions
        assert reads == leased.stats().sessions_opened == leased.status().totals.sessions_opened


def test_a_broker_with_a_new_address(
    kafka: LittleKafka, leased: SharedQuery, budget: Budget
) -> None:
    """After a broker has moved, only its new address has a thread and a session, although a task
    reads from the broker all the time."""
    node = kafka.nodes[1]
    with closing(Inbox(leased.reader_of, budget, lambda: False)) as inbox:
        for address in range(3):
            assert expected(kafka, part(kafka, T0)) == read(leased, part(kafka, T0))
            node.stop()
            node.move()
            node.start()
            inbox.add([RangeProgress.of(part(kafka, T1, 12, 2000))])
            opened = address + 2
            assert wait_until(lambda opened=opened: leased.stats().sessions_opened == opened)
            assert wait_until(lambda: len(leased.status().sessions) == 1)

            assert f"127.0.0.1:{node.port}" in leased.status().sessions[0].broker
            assert wait_until(lambda: ["leased 1"] == threads())


def test_a_thread_with_a_range_stays(
    kafka: LittleKafka, leased: SharedQuery, budget: Budget
) -> None:
    """A range that waits for records keeps its thread, and a task that takes no arrivals too."""
    with closing(Inbox(leased.reader_of, budget, lambda: False)) as inbox:
        inbox.add([RangeProgress.of(part(kafka, T0))])
        assert wait_until(lambda: pending(inbox) == 1)
        (thread,) = leased._running
        threading.Event().wait(0.2)  # four leases

        assert not thread.retired
        assert ["leased 1"] == threads()


def test_ranges_that_come_while_threads_retire(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With threads that retire after two milliseconds, tasks that come and go get every record."""
    monkeypatch.setattr(broker_thread, "_IDLE_MIN_S", 0.002)
    no_lease = options(kafka, kfetch__agent__lease="0")
    items = [part(kafka, tp, start, start + 2) for start in range(0, 12, 2) for tp in (T0, T1)] * 2
    with closing(SharedQuery("leased", no_lease, budget)) as query, ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda item: read(query, item), items))

        assert [expected(kafka, item) for item in items] == rows
        assert wait_until(lambda: not threads())
    assert 0 == budget.used


def test_dropping_starts_no_thread(kafka: LittleKafka, leased: SharedQuery, budget: Budget) -> None:
    """A task may drop a range that it never added, or ask how long it waits: no thread starts."""
    progress = RangeProgress.of(part(kafka, T0))
    with closing(Inbox(leased.reader_of, budget, lambda: False)) as inbox:
        inbox.drop(progress)
        assert 0.0 == inbox.requested_since(progress)

    assert [] == threads()
