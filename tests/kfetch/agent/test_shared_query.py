"""A query that several tasks read at once: one session, every record, all memory returned."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kfetch.agent.budget import Budget
from kfetch.agent.channel import ReadRequest
from kfetch.agent.shared_query import SharedQuery
from kfetch.fetch.totals import read_stats
from tests.kfetch.agent.helpers import (
    T0,
    T1,
    expected,
    options,
    part,
    read,
    wait_until,
)
from tests.kfetch.wire.little import LittleKafka


def test_two_tasks_share_one_session(kafka: LittleKafka, query: SharedQuery) -> None:
    """Two tasks of one broker get their own records, through one session and one connection."""
    items = [part(kafka, T0), part(kafka, T1)]
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda item: read(query, item), items))

    assert [expected(kafka, item) for item in items] == rows
    assert 1 == query.stats().sessions_opened
    assert 1 == query.stats().connections_opened


@pytest.mark.connector_case(
    "KafkaDataConsumerSuite",
    "SPARK-23623: *",
    "SPARK-25151 *",
)
def test_two_tasks_read_the_same_range(kafka: LittleKafka, query: SharedQuery) -> None:
    """A speculative task and its original both get every record."""
    item = part(kafka, T0)
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda _: read(query, item), range(2)))

    assert [expected(kafka, item)] * 2 == rows


def test_a_task_that_ends_early_leaves_the_session(
    kafka: LittleKafka, query: SharedQuery, budget: Budget
) -> None:
    """A read that closes early removes its partition from the session and returns its memory."""
    whole = part(kafka, T0, end=1000)
    with closing(query.deliveries([whole], query.options)) as deliveries:
        next(deliveries)

    assert expected(kafka, part(kafka, T1)) == read(query, part(kafka, T1))
    assert {1} == {index for _, index in kafka.sessions()[0].partitions}
    assert wait_until(lambda: budget.used == 0)


@pytest.mark.parametrize("size", [1, 300])
def test_the_smallest_budget_reads_everything(kafka: LittleKafka, size: int) -> None:
    """If the budget is smaller than a reply, tasks take turns. In the end no memory is in use."""
    budget = Budget(size)
    items = [part(kafka, T0), part(kafka, T1)] * 2
    with (
        closing(SharedQuery("one", options(kafka), budget)) as one,
        closing(SharedQuery("two", options(kafka), budget)) as two,
        ThreadPoolExecutor(4) as pool,
    ):
        rows = list(pool.map(read, [one, one, two, two], items))

        assert [expected(kafka, item) for item in items] == rows
    assert 0 == budget.used


def test_a_small_query_is_not_starved(kafka: LittleKafka) -> None:
    """A slow task that fills the budget does not starve a task of another query."""
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
        rows = read(small, part(kafka, T1))
        first = not slow.done()
        served.set()

        assert expected(kafka, part(kafka, T1)) == rows
        assert first
        assert expected(kafka, part(kafka, T0)) == slow.result()


def test_closing_ends_threads_and_sessions(kafka: LittleKafka, budget: Budget) -> None:
    """A closed query leaves no thread, no session and no memory in use."""
    query = SharedQuery("q", options(kafka), budget)
    read(query, part(kafka, T0))
    threads = [thread for thread in threading.enumerate() if thread.name == "q 1"]
    query.close()

    assert threads
    assert not any(thread.is_alive() for thread in threads)
    assert [] == kafka.sessions()
    assert 0 == budget.used


def test_totals_of_a_directory(kafka: LittleKafka, budget: Budget, tmp_path: Path) -> None:
    """Tasks that end together leave one file, with the totals of all of them."""
    with_statistics = options(kafka, kfetch__statsDirectory=str(tmp_path))
    with closing(SharedQuery("q", with_statistics, budget)) as query, ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            query.begin_read(ReadRequest(query="q", options=with_statistics, ranges=()))
        query.totals.add(records=12)
        list(pool.map(lambda _: query.end_read(), range(8)))

    assert 12 == read_stats(tmp_path).records
    assert 1 == len(list(tmp_path.iterdir()))


def test_totals_of_a_query_that_opens_again(
    kafka: LittleKafka, budget: Budget, tmp_path: Path
) -> None:
    """A query that was closed after its lease opens again. Its file keeps the earlier totals."""
    with_statistics = options(kafka, kfetch__statsDirectory=str(tmp_path))
    for records in (2, 3):
        with closing(SharedQuery("q", with_statistics, budget)) as query:
            for _ in range(2):
                query.totals.add(records=records)
                query.begin_read(ReadRequest(query="q", options=with_statistics, ranges=()))
                query.end_read()

    assert 10 == read_stats(tmp_path).records
