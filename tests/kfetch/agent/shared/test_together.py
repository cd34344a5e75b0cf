"""Tasks that read at the same time: one session, every record, all memory back."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.channel import Gone, Read
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared import SharedQuery
from kfetch.fetch import stats
from kfetch.fetch.events import Decoded
from kfetch.fetch.split_reader import SplitReader
from kfetch.wire.cluster import Cluster
from tests.kfetch.agent.shared.helpers import T0, T1, expected, options, part, read, wait_until
from tests.kfetch.wire.little import LittleKafka


def test_two_tasks_share_one_session(kafka: LittleKafka, query: SharedQuery) -> None:
    """Two readers of one broker get their own records, through one session and connection."""
    items = [part(kafka, T0), part(kafka, T1)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda item: read(query, item), items))

    assert [expected(kafka, item) for item in items] == found
    assert 1 == query.stats().sessions_opened
    assert 1 == query.stats().connections_opened


def test_two_tasks_read_the_same_range(kafka: LittleKafka, query: SharedQuery) -> None:
    """Of a speculative task and its original each gets every record."""
    item = part(kafka, T0)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: read(query, item), range(2)))

    assert [expected(kafka, item)] * 2 == found


def test_a_task_that_goes_away_leaves_the_session(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A reader that is closed early takes its partition out, and its memory comes back."""
    whole = part(kafka, T0, end=1000)
    early = Inbox(query.lane, query._budget, lambda: False)
    with closing(Cluster(query.options.bootstrap, query.options.network)) as cluster:
        deliveries = SplitReader([whole], query.options, cluster, early).deliveries()
        next(deliveries)
        deliveries.close()
        early.close()

    assert expected(kafka, part(kafka, T1)) == read(query, part(kafka, T1))
    assert {1} == {index for _, index in kafka.sessions()[0].partitions}
    assert wait_until(lambda: budget.used == 0)


def test_a_worker_that_has_gone_ends_its_reading(kafka: LittleKafka, query: SharedQuery) -> None:
    """While nothing arrives the inbox asks whether anybody still waits."""
    with closing(Inbox(query.lane, query._budget, lambda: True)) as inbox, pytest.raises(Gone):
        inbox.next(time.monotonic() + 10, time.monotonic() + 10)


@pytest.mark.parametrize("size", [1, 300])
def test_the_smallest_budget_reads_everything(kafka: LittleKafka, size: int) -> None:
    """With room for less than a reply readers take turns, and nothing stays in use."""
    budget = Budget(size)
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with (
        closing(SharedQuery("one", options(kafka), budget)) as one,
        closing(SharedQuery("two", options(kafka), budget)) as two,
        ThreadPoolExecutor(4) as pool,
    ):
        found = list(pool.map(read, [one, one, two, two], items))

        assert [expected(kafka, item) for item in items] == found
    assert 0 == budget.used


def test_a_small_query_is_not_starved(kafka: LittleKafka) -> None:
    """A reader that takes its time over a full budget leaves another query its turn."""
    budget = Budget(1)
    for n in range(50):
        kafka.log(T0).append(b"more %d" % n)
    served = threading.Event()
    with (
        closing(SharedQuery("big", options(kafka), budget)) as big,
        closing(SharedQuery("small", options(kafka), budget)) as small,
        ThreadPoolExecutor(2) as pool,
    ):
        slow = pool.submit(read, big, part(kafka, T0), pause=lambda: served.wait(0.05))
        found = read(small, part(kafka, T1))
        first = not slow.done()
        served.set()

        assert expected(kafka, part(kafka, T1)) == found
        assert first
        assert expected(kafka, part(kafka, T0)) == slow.result()


def test_closing_ends_threads_and_sessions(kafka: LittleKafka, budget: Budget) -> None:
    """A closed query leaves no thread, no session and no memory in use."""
    query = SharedQuery("q", options(kafka), budget)
    read(query, part(kafka, T0))
    lanes = [t for t in threading.enumerate() if isinstance(t, BrokerThread)]
    query.close()

    assert lanes
    assert not any(lane.is_alive() for lane in lanes)
    assert [] == kafka.sessions()
    assert 0 == budget.used


def test_totals_of_a_directory(kafka: LittleKafka, budget: Budget, tmp_path: Path) -> None:
    """Tasks that end together leave one file with all that was read."""
    given = options(kafka, kfetch__statsDirectory=str(tmp_path))
    with closing(SharedQuery("q", given, budget)) as query, ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            query.enter(Read(query="q", options=given, ranges=()))
        query.tell(Decoded(records=12, size=100, seconds=0.1))
        list(pool.map(lambda _: query.leave(), range(8)))

    assert 12 == stats.read(tmp_path).records
    assert 1 == len(list(tmp_path.iterdir()))


def test_statistics_written_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Threads that write one query's file together don't take each other's draft away."""
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(
            lambda n: stats.write(str(tmp_path), "q", stats.FetchStats(records=n)), range(400)
        )
        list(done)

    assert [] == caplog.messages
    assert 1 == len(list(tmp_path.iterdir()))
