"""The driver over a little Kafka: the offsets and the ranges of micro-batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import LogTruncated
from kfetch.model import TopicPartition
from kfetch.offsets import Position
from kfetch.watch.driver import Driver
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, at, logged, query, read
from tests.kfetch.wire.little import LittleKafka

NO_IDS = {MetadataRequest: (0, 9)}  # a broker before Kafka 2.8


def test_batch_after_batch(kafka: LittleKafka, driver: Driver) -> None:
    """Each micro-batch starts at the end of the last one and reads the records since."""
    start = logged(driver.initial_offsets())
    first = logged(driver.next_end(start, None))
    assert {T0: (0, 3), T1: (0, 1)} == read(driver, start, first)

    kafka.log(T1).append(b"y", b"z")
    second = logged(driver.next_end(first, None))

    assert {T1: (1, 3)} == read(driver, first, second)


def test_idle_is_none(kafka: LittleKafka, driver: Driver) -> None:
    """With nothing new there is no new offset, before and after the first batch."""
    empty = query(kafka, startingOffsets="latest")
    assert empty.next_end(logged(empty.initial_offsets()), None) is None
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))

    assert driver.next_end(end, None) is None
    assert {} == read(driver, end, end)


def test_idle_without_topic_ids() -> None:
    """Brokers that have no topic ids do not make an idle query busy."""
    with LittleKafka(1, NO_IDS) as kafka:
        kafka.create("t", 2)
        driver = query(kafka)
        start = logged(driver.initial_offsets())

        assert {} == start.topic_ids
        assert driver.next_end(start, None) is None


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-41375: empty partitions should not record to latest offset",
)
def test_idle_without_topics(kafka: LittleKafka) -> None:
    """A pattern that no topic has yet makes no empty micro-batches (SPARK-41375)."""
    driver = query(kafka, subscribePattern="^later", **ALWAYS)
    start = logged(driver.initial_offsets())
    assert driver.next_end(start, None) is None

    kafka.create("later")
    kafka.log(TopicPartition("later", 0)).append(b"a")

    end = logged(driver.next_end(start, None))
    assert {TopicPartition("later", 0): (0, 1)} == read(driver, start, end)


def test_epoch_change_alone_is_idle(kafka: LittleKafka, driver: Driver) -> None:
    """A new leader without new records makes no micro-batch."""
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.elect(T0, 2)

    assert driver.next_end(end, None) is None


def test_a_backlog_is_read_after_an_election(kafka: LittleKafka, driver: Driver) -> None:
    """The leader stays and only its epoch is new, nobody writes, and the driver knows of it before
    the session does. The session's next reply leaves the partition out, and its backlog is read."""
    kafka.log(T0).append(*[b"backlog"] * 20)
    end = logged(driver.next_end(logged(driver.initial_offsets()), 5))
    kafka.elect(T0, 1)
    driver._watch.update_metadata(driver._lookup.cluster_view(), [T0, T1])
    before = at(end)[T0]
    end = logged(driver.next_end(end, 5))

    assert at(end)[T0] > before


def test_what_a_full_reply_omits_is_no_log_end(kafka: LittleKafka, driver: Driver) -> None:
    """After an election, a new session's full reply has no room for a partition, as with kfake. The
    new leader has not told its log end. So the former one does not count before the next reply."""
    driver.next_end(logged(driver.initial_offsets()), None)
    watch, kafka.omits = driver._watch, True
    kafka.log(T0).append(b"d")
    kafka.elect(T1, 1)
    kafka.evict()
    watch.update_metadata(driver._lookup.cluster_view(), [T0, T1])
    leader = watch.state.leader(T1)
    assert leader is not None
    poll = watch._pollers[leader.broker].poll
    poll()  # the broker knows no such session
    poll()
    assert (Position(4, 0), None) == (watch.state.log_end(T0), watch.state.log_end(T1))
    poll()

    assert Position(1, 0) == watch.state.log_end(T1)


def test_a_cut_log_that_an_incremental_reply_omits(kafka: LittleKafka, driver: Driver) -> None:
    """An election cuts a log, and the new leader's session has no room for its partition, as with
    kfake. That looks like a confirmed log end. The positions' epochs show the loss all the same."""
    start = logged(driver.initial_offsets())
    start = logged(driver.next_end(start, None))
    kafka.omits = True
    kafka.log(T0).append(b"d")
    kafka.log(T1).truncate(0)
    kafka.elect(T1, 1)
    driver._watch.update_metadata(driver._lookup.cluster_view(), [T0, T1])
    with pytest.raises(LogTruncated, match="t-1 was truncated at offset 0"):
        driver.next_end(start, None)


def test_positions_carry_their_epoch(kafka: LittleKafka, driver: Driver) -> None:
    """A position that moves has the leader's epoch, one that stays keeps its own."""
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    for tp in (T0, T1):
        kafka.elect(tp, 1)
    kafka.log(T0).append(b"d")

    assert {T0: Position(4, 1), T1: Position(1, 0)} == logged(driver.next_end(end, None)).positions


def test_new_partitions_begin_at_earliest(kafka: LittleKafka) -> None:
    """Partitions that are added later are read from their beginning, also with ``latest``."""
    driver = query(kafka, startingOffsets="latest", **ALWAYS)
    start = logged(driver.initial_offsets())
    driver.next_end(start, None)
    kafka.topics["t"].logs += [type(kafka.log(T0))(leader=1), type(kafka.log(T0))(leader=2)]
    kafka.log(TopicPartition("t", 2)).append(b"n", b"m")
    end = logged(driver.next_end(start, None))

    assert {TopicPartition("t", 2): (0, 2)} == read(driver, start, end)


def test_limit(kafka: LittleKafka, driver: Driver) -> None:
    """maxOffsetsPerTrigger 10 over 101/11/1 records gives 8/1/1, then 9/1/0, then all of it."""
    logs = kafka.create("t", 3)
    for log, size in zip(logs, (101, 11, 1), strict=True):
        log.append(*[b"v"] * size)
    offsets = logged(driver.initial_offsets())
    seen: list[tuple[int, ...]] = []
    while (end := driver.next_end(offsets, 10)) is not None:
        before, offsets = offsets, logged(end)
        sizes = {tp.partition: b - a for tp, (a, b) in read(driver, before, offsets).items()}
        seen.append(tuple(sizes.get(p, 0) for p in range(3)))

    assert [(8, 1, 1), (9, 1, 0)] == seen[:2]
    assert [101, 11, 1] == [sum(column) for column in zip(*seen, strict=True)]


def test_known_log_ends(kafka: LittleKafka, driver: Driver) -> None:
    """Progress reports the log ends of the last planning, without another look-up."""
    assert driver.log_ends is None
    driver.next_end(logged(driver.initial_offsets()), 1)
    asked = len(kafka.asked(ListOffsetsRequest))
    kafka.log(T0).append(b"d")

    assert {T0: 3, T1: 1} == at(driver.log_ends)
    assert asked == len(kafka.asked(ListOffsetsRequest))


def test_planning_sends_no_look_ups(kafka: LittleKafka, driver: Driver) -> None:
    """After the first planning, the driver sends neither ListOffsets nor Metadata requests."""
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    asked = [len(kafka.asked(api)) for api in (ListOffsetsRequest, MetadataRequest)]
    for _ in range(5):
        assert driver.next_end(end, None) is None
    kafka.log(T0).append(b"d")
    end = logged(driver.next_end(end, None))

    assert {T0: 4, T1: 1} == at(end)
    assert asked == [len(kafka.asked(api)) for api in (ListOffsetsRequest, MetadataRequest)]


def test_an_unexpected_start_is_planned_whole(kafka: LittleKafka, driver: Driver) -> None:
    """After an unexpected start, as when Spark drops a planned end, all partitions are planned."""
    start = logged(driver.initial_offsets())
    first = logged(driver.next_end(start, None))
    assert at(first) == at(driver.next_end(start, None))
    assert {T0: (0, 3), T1: (0, 1)} == read(driver, start, first)


def test_a_busy_query_is_not_held_up(
    kafka: LittleKafka, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another source keeps the query busy, an idle source waits 10 ms, not a long poll."""
    waits: list[float] = []
    monkeypatch.setattr(
        driver._watch, "wait_for_change", lambda seconds: bool(waits.append(seconds))
    )
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    driver.note_commit()  # of the batch just planned
    driver.next_end(end, None)
    driver.note_commit()  # of a batch that had nothing of ours
    driver.next_end(end, None)
    driver.next_end(end, None)

    assert [0.5, 0.01, 0.5] == [round(seconds, 2) for seconds in waits]


def test_losses_are_counted_in_the_report(kafka: LittleKafka, tmp_path: Path) -> None:
    """The driver's file counts each loss once, and has the cost of the watch."""
    driver = query(kafka, failOnDataLoss="false", kfetch__statsDirectory=str(tmp_path))
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.create("t", 2)
    kafka.log(T0).append(b"new")
    after = logged(driver.next_end(end, None))
    read(driver, end, after)
    driver.close()
    (report,) = (tmp_path / "driver").iterdir()
    statistics = json.loads(report.read_text())

    assert {"TopicRecreated": 2} == statistics["losses"]
    assert statistics["watch"]["incremental_requests"] > 0
