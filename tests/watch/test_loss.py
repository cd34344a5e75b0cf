"""Losses seen by the driver: which error each is, and where reading goes on without one."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from wire.little import LittleKafka
from wire.log import Log

from spark_source.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from spark_source.model import TopicPartition
from spark_source.offsets import Offsets
from spark_source.watch.driver import Driver

from .helpers import ALWAYS, T0, T1, U0, at, fill, logged, query, read

Damage = Callable[[LittleKafka], None]
Ranges = dict[TopicPartition, tuple[int, int]]


def recreated(kafka: LittleKafka) -> None:
    """The topic is deleted and created again, with fewer records."""
    kafka.create("t", 2)
    kafka.log(T0).append(b"new a")


def regrown(kafka: LittleKafka) -> None:
    """The same, and its log is longer than the old one by now."""
    kafka.create("t", 2)
    kafka.log(T0).append(*[b"new %d" % n for n in range(9)])


def deleted(kafka: LittleKafka) -> None:
    """The topic is deleted."""
    del kafka.topics["t"]


def shrunk(kafka: LittleKafka) -> None:
    """A partition is gone."""
    kafka.topics["t"].logs.pop()


def expired(kafka: LittleKafka) -> None:
    """Retention has passed the position."""
    kafka.log(T0).append(b"d", b"e", b"f")
    kafka.log(T0).append(b"g", b"h")
    kafka.log(T0).expire(6)


def truncated(kafka: LittleKafka) -> None:
    """An unclean election has lost the last records, and others came in their place."""
    log = kafka.log(T0)
    log.truncate(0)
    log.append(b"a")
    kafka.elect(T0, 2)
    log.append(b"new b", b"new c", b"new d")


def beyond(kafka: LittleKafka) -> None:
    """The log ends below the position, under the same leader epoch."""
    kafka.log(T0).truncate(0)
    kafka.log(T0).append(b"new a")


# Damage after the first batch, the error it is, and what is read on with failOnDataLoss=false.
CASES: list[tuple[Damage, type[DataLoss], str, Ranges]] = [
    (recreated, TopicRecreated, "topic t was deleted and created again", {T0: (0, 1)}),
    (regrown, TopicRecreated, "topic t was deleted and created again", {T0: (0, 9)}),
    (
        deleted,
        PartitionGone,
        "t-0 no longer exists, or is not subscribed",
        {},
    ),
    (
        shrunk,
        PartitionGone,
        "t-1 no longer exists, or is not subscribed",
        {},
    ),
    (truncated, LogTruncated, r"t-0 was truncated at offset 1 \(leader epoch 0\)", {T0: (1, 4)}),
    (beyond, OffsetBeyondLog, "t-0 stands at offset 3, but its log ends at 1", {}),
]
LOSSES = pytest.mark.parametrize(
    ("damage", "kind", "told", "ranges"), CASES, ids=[case[0].__name__ for case in CASES]
)


class Reader:
    """Spark's part: goes from offset to offset, and keeps the values that were delivered."""

    def __init__(self, kafka: LittleKafka, driver: Driver) -> None:
        self.kafka = kafka
        self.driver = driver
        self.offsets = logged(driver.initial())
        self.values: list[bytes] = []
        self.last: Ranges = {}

    def batch(self) -> Offsets | None:
        """One micro-batch, if there is one."""
        end = self.driver.latest(self.offsets, None)
        self.last = {}
        if end is not None:
            start, self.offsets = self.offsets, logged(end)
            self.take(start, self.offsets)
        return end

    def take(self, start: Offsets, end: Offsets) -> None:
        """Read what the tasks between two offsets read."""
        self.last = read(self.driver, start, end)
        for tp, (first, last) in self.last.items():
            kept = self.kafka.log(tp).values
            self.values += [kept[at] for at in range(first, last) if at in kept]

    def finish(self) -> None:
        """Read until nothing is new."""
        for _ in range(10):
            if self.batch() is None:
                return
        pytest.fail("an idle query goes on and on")


@pytest.fixture
def lenient(kafka: LittleKafka) -> Reader:
    """A query with failOnDataLoss=false that has read everything so far."""
    reader = Reader(kafka, query(kafka, failOnDataLoss="false", **ALWAYS))
    reader.batch()
    return reader


@LOSSES
def test_failing(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], told: str, ranges: Ranges
) -> None:
    """By default a loss fails the query, with an error of its own that says what was lost."""
    reader = Reader(kafka, query(kafka))
    reader.batch()
    damage(kafka)
    with pytest.raises(DataLoss, match=told) as caught:
        reader.batch()

    assert kind is type(caught.value)
    assert "failOnDataLoss=false" in str(caught.value) or kind is OffsetBeyondLog
    assert ("t", int) == (caught.value.topic, type(caught.value.partition))


@LOSSES
def test_failing_after_a_restart(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], told: str, ranges: Ranges
) -> None:
    """A loss while the query was down is found by the next run."""
    reader = Reader(kafka, query(kafka))
    reader.batch()
    damage(kafka)
    reader.driver = query(kafka)
    if kind is OffsetBeyondLog:  # epochs are asked for at a start, and explain it
        kind, told = LogTruncated, "t-0 was truncated at offset 1"
    with pytest.raises(kind, match=told):
        reader.batch()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_expired_while_down(kafka: LittleKafka, lenient: Reader, fail: str) -> None:
    """Records that expired while the query was down are a loss, or passed over."""
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
    """While a query runs its session tells the log start, and no leader need change for it."""
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
    told: str,
    ranges: Ranges,
) -> None:
    """With failOnDataLoss=false a loss is a warning, and reading goes on behind it."""
    damage(kafka)
    with caplog.at_level(logging.WARNING):
        lenient.batch()

    assert ranges == lenient.last
    assert any("failOnDataLoss=false: going on" in record.message for record in caplog.records)


@LOSSES
def test_nothing_twice(
    kafka: LittleKafka,
    lenient: Reader,
    damage: Damage,
    kind: type[DataLoss],
    told: str,
    ranges: Ranges,
) -> None:
    """After a loss nothing is read twice, however long the log grows, and what is new is read."""
    damage(kafka)
    lenient.finish()
    if not kafka.topics:
        fill(kafka)
    for n in range(12):
        kafka.log(T0).append(b"later %d" % n)
        lenient.finish()

    later = [value for value in lenient.values if value.startswith(b"later")]
    assert [b"later %d" % n for n in range(12)] == later
    fresh = [value for value in lenient.values if value.startswith(b"new")]
    assert len(set(fresh)) == len(fresh)


@LOSSES
def test_loss_before_planning(
    kafka: LittleKafka, damage: Damage, kind: type[DataLoss], told: str, ranges: Ranges
) -> None:
    """A loss between ``latest`` and ``splits`` fails no lenient query, and repeats nothing."""
    reader = Reader(kafka, query(kafka, failOnDataLoss="false"))
    reader.batch()
    kafka.log(T1).append(b"y")
    start, end = reader.offsets, logged(reader.driver.latest(reader.offsets, None))
    damage(kafka)
    reader.offsets = end
    reader.take(start, end)
    reader.finish()

    assert len(set(reader.values)) == len(reader.values)


@pytest.mark.parametrize("damage", [recreated, regrown, deleted, shrunk])
@pytest.mark.parametrize("restart", [False, True])
def test_loss_before_planning_fails(kafka: LittleKafka, damage: Damage, restart: bool) -> None:
    """The same by default fails the query, also if planning is the first thing after a restart."""
    driver = query(kafka)
    start = logged(driver.initial())
    end = logged(driver.latest(start, None))
    damage(kafka)
    driver = query(kafka) if restart else driver
    with pytest.raises((TopicRecreated, PartitionGone)):
        driver.splits(start, end)


def test_new_topic_gone_before_planning(kafka: LittleKafka) -> None:
    """A topic that came and went between two offsets is a loss too."""
    for fail in ("true", "false"):
        driver = query(kafka, subscribePattern=".", failOnDataLoss=fail, **ALWAYS)
        start = logged(driver.latest(logged(driver.initial()), None))
        kafka.create("u")
        kafka.log(U0).append(b"u")
        end = logged(driver.latest(start, None))
        del kafka.topics["u"]
        if fail == "true":
            with pytest.raises(PartitionGone, match="u-0 no longer exists"):
                driver.splits(start, end)
        else:
            assert {} == read(driver, start, end)


def test_new_topic_recreated_before_planning(kafka: LittleKafka) -> None:
    """Offsets of a topic that was created again are not applied to the new one."""
    for fail in ("true", "false"):
        kafka.topics.pop("u", None)
        driver = query(kafka, subscribePattern=".", failOnDataLoss=fail, **ALWAYS)
        start = logged(driver.latest(logged(driver.initial()), None))
        kafka.create("u")
        kafka.log(U0).append(b"u")
        end = logged(driver.latest(start, None))
        kafka.create("u")
        kafka.log(U0).append(b"new u")
        if fail == "true":
            with pytest.raises(TopicRecreated):
                driver.splits(start, end)
        else:
            assert {} == read(driver, start, end)
            assert {U0: (0, 1)} == read(driver, end, logged(driver.latest(end, None)))


def test_same_position_in_the_new_topic(kafka: LittleKafka, lenient: Reader) -> None:
    """A new topic that reaches the old topic's position is not sent back to its beginning."""
    kafka.create("t", 2)
    for n in range(6):
        kafka.log(T0).append(b"new %d" % n)
        lenient.finish()

    assert [b"new %d" % n for n in range(6)] == lenient.values[4:]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_new_partition_not_at_zero(kafka: LittleKafka, fail: str) -> None:
    """A new partition whose first records are gone already is a loss."""
    driver = query(kafka, failOnDataLoss=fail, **ALWAYS)
    start = logged(driver.latest(logged(driver.initial()), None))
    kafka.topics["t"].logs.append(Log(leader=1))
    new = TopicPartition("t", 2)
    kafka.log(new).append(b"a")
    kafka.log(new).append(b"b", b"c")
    kafka.log(new).expire(1)
    if fail == "true":
        with pytest.raises(RecordsExpired, match="t-2 is new, but its log starts at offset 1"):
            driver.latest(start, None)
    else:
        assert {new: (1, 3)} == read(driver, start, logged(driver.latest(start, None)))


def test_unclean_election_without_loss(kafka: LittleKafka, lenient: Reader) -> None:
    """A new epoch over a log that still reaches the position is no loss."""
    kafka.elect(T0, 2)
    kafka.log(T0).append(b"d")
    strict = query(kafka)

    assert {T0: (3, 4)} == read(
        strict, lenient.offsets, logged(strict.latest(lenient.offsets, None))
    )


def test_epoch_that_wrote_nothing(kafka: LittleKafka, lenient: Reader) -> None:
    """A position under an epoch without records is not taken for divergence."""
    for node in (2, 1, 2):
        kafka.elect(T0, node)
    kafka.log(T1).append(b"y")
    lenient.batch()
    kafka.elect(T0, 1)
    strict = query(kafka)
    kafka.log(T0).append(b"d")

    assert T0 in read(strict, lenient.offsets, logged(strict.latest(lenient.offsets, None)))


def test_leaders_are_checked_once(kafka: LittleKafka, lenient: Reader) -> None:
    """Epochs are asked for when a leader changes, not in every micro-batch."""
    before = len(kafka.asked(OffsetForLeaderEpochRequest))
    for _ in range(5):
        lenient.batch()
    assert before == len(kafka.asked(OffsetForLeaderEpochRequest))
    kafka.elect(T0, 2)
    lenient.batch()

    asked = kafka.asked(OffsetForLeaderEpochRequest)[before:]
    assert [[("t", 0)]] == [
        [(t.topic, p.partition) for t in request.topics for p in t.partitions] for request in asked
    ]


def test_old_answer_is_asked_again(kafka: LittleKafka) -> None:
    """A log end below the position is asked for again before it is a loss (KAFKA-7703)."""
    driver = query(kafka)
    start = logged(driver.latest(logged(driver.initial()), None))
    kafka.log(T1).append(b"y")

    def old(request: object) -> object:
        reply = kafka._list_offsets(1, request)
        reply.topics[0].partitions[0].offset = 1
        return reply

    kafka.nodes[1].answer(ListOffsetsRequest, old, old)

    assert {T0: 3, T1: 2} == at(driver.latest(start, None))


def test_positions_of_an_old_broker() -> None:
    """Where epochs can't be asked for, a log that is long enough is believed."""
    with LittleKafka(1, {OffsetForLeaderEpochRequest: (0, 2)}) as kafka:
        fill(kafka)
        driver = query(kafka)
        start = logged(driver.latest(logged(driver.initial()), None))
        kafka.elect(T0, 1)
        kafka.log(T0).append(b"d")

        assert {T0: (3, 4)} == read(driver, start, logged(driver.latest(start, None)))


def cut_while_planned(kafka: LittleKafka) -> None:
    """An unclean election cuts the log inside a planned range; it grows past the end."""
    log = kafka.log(T0)
    log.truncate(4)
    kafka.elect(T0, 2)
    log.append(*[b"new %d" % n for n in range(4, 9)])


def test_truncation_between_planning_and_reading(kafka: LittleKafka) -> None:
    """A planned range whose end is of a lost history is not read as if nothing had happened."""
    driver = query(kafka)
    start = logged(driver.latest(logged(driver.initial()), None))
    kafka.log(T0).append(b"d")
    kafka.log(T0).append(b"e", b"f")
    end = logged(driver.latest(start, None))
    cut_while_planned(kafka)
    with pytest.raises(LogTruncated, match="t-0 was truncated at offset 4"):
        driver.splits(start, end)
    with pytest.raises(LogTruncated, match="t-0 was truncated at offset 4"):
        driver.latest(end, None)


def test_truncation_inside_a_planned_range_is_read_once(
    kafka: LittleKafka, lenient: Reader
) -> None:
    """With failOnDataLoss=false what lies below the cut is read, then what came in its place."""
    kafka.log(T0).append(b"d")
    kafka.log(T0).append(b"e", b"f")
    end = logged(lenient.driver.latest(lenient.offsets, None))
    cut_while_planned(kafka)
    start, lenient.offsets = lenient.offsets, end
    lenient.take(start, end)
    lenient.finish()

    assert [b"d", *[b"new %d" % n for n in range(4, 9)]] == lenient.values[4:]


def test_a_partition_out_of_the_subscription_is_told(kafka: LittleKafka) -> None:
    """Narrowing ``assign`` drops a partition of the checkpoint: that is a loss, as in the
    connector, not silence."""
    wide = query(kafka, assign='{"t":[0,1]}')
    start = logged(wide.latest(logged(wide.initial()), None))
    strict = query(kafka, assign='{"t":[0]}')
    with pytest.raises(PartitionGone, match="t-1 no longer exists, or is not subscribed"):
        strict.latest(start, None)
    lenient = query(kafka, assign='{"t":[0]}', failOnDataLoss="false")

    assert {T0: 3} == at(lenient.latest(start, None))


def test_metadata_without_a_topic_is_asked_again(kafka: LittleKafka) -> None:
    """One reply that lacks the topic, of a broker that lags behind, deletes nothing."""
    driver = query(kafka)
    start = logged(driver.latest(logged(driver.initial()), None))
    topic = kafka.topics.pop("t")

    def back(request: object) -> object:
        reply = kafka._metadata(request)
        kafka.topics["t"] = topic
        return reply

    kafka.nodes[1].answer(MetadataRequest, back)

    assert driver.latest(start, None) is None
