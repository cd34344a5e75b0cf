"""AvailableNow: a query ends at the first log ends, or fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    TopicRecreated,
)
from kfetch.watch.driver import Driver
from tests.kfetch.watch.damage import expired, regrown
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, at, logged, loss_counts, query, read
from tests.kfetch.wire.little import LittleKafka


def test_available_now(kafka: LittleKafka, driver: Driver) -> None:
    """An AvailableNow query ends at the log ends of its first planning, after several batches."""
    start = logged(driver.initial_offsets())
    driver.prepare_available_now()
    kafka.log(T0).append(b"before")
    first = logged(driver.next_end(start, 2))
    kafka.log(T0).append(b"after", b"after")
    kafka.log(T1).append(b"after")
    ends = [first]
    while (end := driver.next_end(ends[-1], 2)) is not None:
        ends.append(logged(end))

    assert {T0: 4, T1: 1} == at(ends[-1])
    assert len(ends) > 1


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "Query with Trigger.AvailableNow should throw error when topic partitions *",
)
def test_available_now_with_a_partition_gone(kafka: LittleKafka, driver: Driver) -> None:
    """An AvailableNow query fails if a planned partition is deleted, with any failOnDataLoss."""
    lenient = query(kafka, failOnDataLoss="false")
    start = logged(lenient.initial_offsets())
    lenient.prepare_available_now()
    first = logged(lenient.next_end(start, 1))
    del kafka.topics["t"]
    with pytest.raises(PartitionGone, match="t-0, t-1: lost while an AvailableNow query"):
        lenient.next_end(first, 1)


def test_available_now_twice(kafka: LittleKafka, driver: Driver) -> None:
    """Each preparation fixes new log ends."""
    driver.prepare_available_now()
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.log(T0).append(b"d")
    assert driver.next_end(end, None) is None
    driver.prepare_available_now()

    assert {T0: 4, T1: 1} == at(driver.next_end(end, None))


@pytest.mark.parametrize("code", [-1, 6])
def test_available_now_while_a_partition_is_refused(kafka: LittleKafka, code: int) -> None:
    """An AvailableNow query reads a partition up to its end, although the watch's session gets a
    passing error for it just then."""
    driver = query(kafka)
    start = logged(driver.initial_offsets())
    driver.prepare_available_now()
    kafka.hints = False
    kafka.errors[T1] = [code] * 4
    end = driver.next_end(start, None)

    assert {T0: 3, T1: 1} == at(end)


def cut(kafka: LittleKafka) -> None:
    """The log ends below the planned end."""
    kafka.log(T0).truncate(0)


def replaced(kafka: LittleKafka) -> None:
    """The log was truncated and has grown past the planned end under another leader."""
    kafka.log(T0).truncate(0)
    kafka.elect(T0, 2)
    kafka.log(T0).append(*[b"n"] * 9)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "Query with Trigger.AvailableNow should throw error when offset(s) in planned *",
)
@pytest.mark.parametrize(
    ("damage", "kind"),
    [(cut, OffsetBeyondLog), (replaced, LogTruncated), (regrown, TopicRecreated)],
)
def test_available_now_that_shrinks(
    kafka: LittleKafka, damage: Callable[[LittleKafka], None], kind: type[DataLoss]
) -> None:
    """An AvailableNow query fails if its end is lost while it reads, with any failOnDataLoss."""
    driver = query(kafka, failOnDataLoss="false", **ALWAYS)
    start = logged(driver.initial_offsets())
    driver.prepare_available_now()
    first = logged(driver.next_end(start, 1))
    assert at(first) == {T0: 1, T1: 1}
    damage(kafka)
    with pytest.raises(kind, match="lost while an AvailableNow query was reading"):
        driver.next_end(first, 1)


@pytest.mark.parametrize("elected", [False, True])
def test_available_now_whose_records_expire(kafka: LittleKafka, elected: bool) -> None:
    """With failOnDataLoss=false, retention that passes the end is one loss. The query ends at the
    log start, also after an election, and reads no later record."""
    driver = query(kafka, failOnDataLoss="false")
    start = logged(driver.initial_offsets())
    driver.prepare_available_now()
    first = logged(driver.next_end(start, 1))
    expired(kafka)
    if elected:
        kafka.elect(T0, 2)
    last = logged(driver.next_end(first, 1))
    assert {T0: 6, T1: 1} == at(last)
    assert {} == read(driver, first, last)

    kafka.log(T0).append(b"later")
    assert driver.next_end(last, 1) is None
    assert {"RecordsExpired": 1} == loss_counts(driver)


def test_available_now_past_the_log_end(kafka: LittleKafka) -> None:
    """An AvailableNow query that starts past the log end finds that loss."""
    driver = query(kafka, startingOffsets='{"t":{"0":9,"1":-2}}')
    driver.prepare_available_now()
    with pytest.raises(OffsetBeyondLog, match="t-0: offset 9 lies past the log end 3"):
        driver.next_end(logged(driver.initial_offsets()), None)
