"""Losses in the driver: the error of each, and where reading continues without an error."""

from __future__ import annotations

import logging

import pytest

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
)
from kfetch.model import TopicPartition
from tests.kfetch.watch.damage import LOSSES, Damage, Ranges, Reader, expired
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, at, fill, logged, loss_counts, query, read
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import Log


@LOSSES
def test_failing(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], message: str, ranges: Ranges
) -> None:
    """By default a loss fails the query with an error of its own class."""
    reader = Reader(kafka, query(kafka))
    reader.batch()
    damage(kafka)
    with pytest.raises(DataLoss, match=message) as caught:
        reader.batch()

    assert kind is type(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    assert ("t", int) == (caught.value.topic, type(caught.value.partition))


@LOSSES
def test_failing_after_a_restart(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], message: str, ranges: Ranges
) -> None:
    """The next run finds a loss that happened while the query was down."""
    reader = Reader(kafka, query(kafka))
    reader.batch()
    damage(kafka)
    reader.driver = query(kafka)
    if kind is OffsetBeyondLog:  # epochs are asked for at a start, and explain it
        kind, message = LogTruncated, "t-0 was truncated at offset 1"
    with pytest.raises(kind, match=message):
        reader.batch()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_expired_while_down(kafka: LittleKafka, lenient: Reader, fail: str) -> None:
    """Records that expired while the query was down are an error, or are skipped."""
    expired(kafka)
    lenient.driver = query(kafka, failOnDataLoss=fail)
    if fail == "true":
        with pytest.raises(RecordsExpired, match="t-0: offsets 3 to 6 have expired unread"):
            lenient.batch()
    else:
        lenient.batch()
        assert {T0: (6, 8)} == lenient.last


@pytest.mark.parametrize("fail", ["true", "false"])
def test_expired_while_running(kafka: LittleKafka, fail: str) -> None:
    """A running query learns the log start from its session, without a change of leader."""
    reader = Reader(kafka, query(kafka, failOnDataLoss=fail))
    reader.batch()
    expired(kafka)
    if fail == "true":
        with pytest.raises(RecordsExpired, match="t-0: offsets 3 to 6 have expired unread"):
            reader.batch()
    else:
        reader.batch()
        assert {T0: (6, 8)} == reader.last


@LOSSES
def test_going_on(
    kafka: LittleKafka,
    lenient: Reader,
    caplog: pytest.LogCaptureFixture,
    damage: Damage,
    kind: type[DataLoss],
    message: str,
    ranges: Ranges,
) -> None:
    """With failOnDataLoss=false a loss is a warning, and reading continues."""
    damage(kafka)
    with caplog.at_level(logging.WARNING):
        lenient.batch()

    assert ranges == lenient.last
    assert "failOnDataLoss=false: the query continues" in caplog.text


@pytest.mark.connector_case(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: microbatch v2",
)
@LOSSES
def test_nothing_twice(
    kafka: LittleKafka,
    lenient: Reader,
    damage: Damage,
    kind: type[DataLoss],
    message: str,
    ranges: Ranges,
) -> None:
    """After a loss, later records are read once, and no record twice."""
    damage(kafka)
    lenient.finish()
    if not kafka.topics:
        fill(kafka)
    for n in range(4):
        kafka.log(T0).append(b"later %d" % n)
        lenient.finish()

    later = [value for value in lenient.values if value.startswith(b"later")]
    assert [b"later %d" % n for n in range(4)] == later
    fresh = [value for value in lenient.values if value.startswith(b"new")]
    assert len(set(fresh)) == len(fresh)


def test_same_position_in_the_new_topic(kafka: LittleKafka, lenient: Reader) -> None:
    """After the start of a new topic, reaching the old topic's position is no loss again."""
    kafka.create("t", 2)
    for n in range(6):
        kafka.log(T0).append(b"new %d" % n)
        lenient.finish()

    assert [b"new %d" % n for n in range(6)] == lenient.values[4:]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_new_partition_not_at_zero(kafka: LittleKafka, fail: str) -> None:
    """A new partition whose first records have expired is a loss."""
    driver = query(kafka, failOnDataLoss=fail, **ALWAYS)
    start = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.topics["t"].logs.append(Log(leader=1))
    new = TopicPartition("t", 2)
    kafka.log(new).append(b"a")
    kafka.log(new).append(b"b", b"c")
    kafka.log(new).expire(1)
    if fail == "true":
        with pytest.raises(RecordsExpired, match="t-2: offsets 0 to 1 have expired unread"):
            driver.next_end(start, None)
    else:
        assert {new: (1, 3)} == read(driver, start, logged(driver.next_end(start, None)))


def test_a_partition_out_of_the_subscription_is_a_loss(kafka: LittleKafka) -> None:
    """If ``assign`` drops a partition of the checkpoint, that is a loss, as in the connector."""
    wide = query(kafka, assign='{"t":[0,1]}')
    start = logged(wide.next_end(logged(wide.initial_offsets()), None))
    strict = query(kafka, assign='{"t":[0]}')
    with pytest.raises(PartitionGone, match="t-1 no longer exists, or is not subscribed"):
        strict.next_end(start, None)
    lenient = query(kafka, assign='{"t":[0]}', failOnDataLoss="false")

    assert {T0: 3} == at(lenient.next_end(start, None))


def test_another_leader_may_start_lower(kafka: LittleKafka, lenient: Reader) -> None:
    """A log start counts while the leader leads that told it. After an unclean election the log
    may start lower again, and then the records from the position on are there, and are read."""
    log = kafka.log(T0)
    kept = list(log.batches)
    expired(kafka)
    lenient.driver.next_end(lenient.offsets, None)
    log.start, log.batches = 0, kept
    kafka.elect(T0, 2)
    log.append(*[b"new %d" % n for n in range(6)])
    lenient.batch()

    assert {T0: (3, 9)} == lenient.last


def test_a_new_topic_takes_over_no_offset_of_the_old_one(
    kafka: LittleKafka, lenient: Reader
) -> None:
    """A topic is created again, and the log end of one partition is unknown just then. This
    partition leaves the offsets, and comes back as a new one."""
    kafka.create("t", 2)
    kafka.log(T0).append(b"new a")
    kafka.hints = False
    kafka.errors[T1] = [6]
    lenient.batch()
    assert {T0: (0, 1)} == lenient.last
    assert {T0: 1} == at(lenient.offsets)
    assert {} == lenient.offsets.left

    kafka.log(T1).append(b"new x")
    lenient.finish()

    assert [b"new a", b"new x"] == lenient.values[4:]
    assert {"TopicRecreated": 2} == loss_counts(lenient.driver)
