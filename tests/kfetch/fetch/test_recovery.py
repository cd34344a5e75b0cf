"""What an error of a partition asks for: a table of losses, leaders and positions."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kfetch import losses
from kfetch.decoding import extent
from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from kfetch.fetch import recovery
from kfetch.fetch.progress import RangeProgress
from kfetch.model import (
    NO_TOPIC_ID,
    Broker,
    ClusterView,
    Leader,
    OffsetRange,
    Topic,
    TopicPartition,
)
from kfetch.options import NetworkOptions
from kfetch.records import Extent
from kfetch.wire.cluster import Cluster
from tests.kfetch.records.batch_builder import batch, record
from tests.kfetch.wire.little import LittleKafka

T0 = TopicPartition("t", 0)
ID, OTHER = UUID(int=1), UUID(int=2)
HERE = Broker(node_id=1, host="here", port=1)
THERE = Broker(node_id=2, host="there", port=2)


def progress(start: int = 5, end: int = 9, **changes: Any) -> RangeProgress:
    """A range of t-0 from ``start`` to ``end``, led by HERE since epoch 3."""
    made = RangeProgress.of(
        OffsetRange(tp=T0, topic_id=ID, start=start, end=end, leader_epoch=3, leader=HERE)
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def view(topic_id: UUID = ID, leader: Leader | None = None, partition: int = 0) -> ClusterView:
    """A cluster with one partition of t."""
    topic = Topic(name="t", topic_id=topic_id, internal=False, leaders={partition: leader})
    return ClusterView(brokers={}, topics={"t": topic})


NEW = Leader(broker=THERE, epoch=4)


@pytest.mark.parametrize("topic_id", [ID, NO_TOPIC_ID])
def test_relocate(topic_id: UUID) -> None:
    """A range follows its partition to the leader and epoch of now."""
    moved = progress()

    assert recovery.relocate(moved, view(topic_id, NEW), now=0.0, fail=True)
    assert (THERE, 4, 5, 9) == (moved.leader, moved.leader_epoch, moved.offset, moved.end)


def test_older_metadata_moves_no_range() -> None:
    """A range waits while metadata names an older leader than its own. Epoch -1 tells no age."""
    moved = progress()

    assert not recovery.relocate(moved, view(ID, Leader(broker=THERE, epoch=2)), now=0.0, fail=True)
    assert (HERE, 3) == (moved.leader, moved.leader_epoch)
    assert recovery.relocate(moved, view(ID, Leader(broker=THERE, epoch=3)), now=0.0, fail=True)
    assert recovery.relocate(moved, view(ID, Leader(broker=THERE)), now=0.0, fail=True)


def test_relocate_without_a_leader() -> None:
    """While there is no leader the range stays where it is, and is not over."""
    moved = progress()

    assert not recovery.relocate(moved, view(), now=0.0, fail=True)
    assert (HERE, 3, False) == (moved.leader, moved.leader_epoch, moved.done)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is gone after ten seconds, as for users."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 10.0)


GONE = [
    (
        ClusterView(brokers={}, topics={}),
        PartitionGone,
        "t-0 no longer exists, or is not",
    ),
    (view(leader=NEW, partition=1), PartitionGone, "t-0 no longer exists, or is not"),
    (view(OTHER, NEW), TopicRecreated, "topic t was deleted and created again"),
]


@pytest.mark.parametrize(("now", "kind", "told"), GONE)
def test_relocate_to_nothing(now: ClusterView, kind: type[DataLoss], told: str) -> None:
    """A partition or topic that is gone, or another one, is a loss with its place."""
    lost = progress()
    with pytest.raises(kind, match=told) as caught:
        look_until_settled(lost, now, fail=True)

    position = {"topic": "t", "partition": 0, "offset": 5, "leader_epoch": 3}
    assert position.items() <= caught.value.where.items()


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "delete a topic when a Spark job is running",
)
@pytest.mark.parametrize(("now", "kind", "told"), GONE)
def test_relocate_to_nothing_going_on(
    now: ClusterView, kind: type[DataLoss], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With failOnDataLoss=false the range is over, its place settled, and the loss logged."""
    left = progress()
    with caplog.at_level(logging.WARNING):
        look_until_settled(left, now, fail=False)

    assert left.done
    assert told in caplog.text


def look_until_settled(lost: RangeProgress, now: ClusterView, *, fail: bool) -> None:
    """Look at the same metadata for ten seconds."""
    for seconds in range(11):
        if recovery.relocate(lost, now, now=100.0 + seconds, fail=fail):
            return
    pytest.fail("never settled")


@pytest.mark.usefixtures("patient")
def test_ten_seconds_without_the_partition() -> None:
    """A range waits ten seconds for a partition that metadata hides. Each answer that names the
    partition begins the time anew."""
    lost, nothing = progress(), ClusterView(brokers={}, topics={})
    for seconds in (0.0, 9.9):
        assert not recovery.relocate(lost, nothing, now=100.0 + seconds, fail=True)
    assert recovery.relocate(lost, view(ID, NEW), now=111.0, fail=True)
    for seconds in (12.0, 21.9):
        assert not recovery.relocate(lost, nothing, now=100.0 + seconds, fail=True)
    assert not lost.done
    with pytest.raises(PartitionGone):
        recovery.relocate(lost, nothing, now=122.0, fail=True)


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """A log from offset 4 to 8."""
    with LittleKafka() as running:
        (log,) = running.create("t")
        log.epoch = 3
        for _ in range(2):
            log.append(*[b"v"] * 4)
        log.expire(4)
        yield running


@pytest.fixture
def cluster(kafka: LittleKafka) -> Iterator[Cluster]:
    """Whom to ask."""
    made = Cluster((("127.0.0.1", kafka.nodes[1].port),), NetworkOptions(retry_backoff_s=0.001))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("start", "end", "kind", "told", "offset", "until"),
    [
        (
            1,
            7,
            RecordsExpired,
            "t-0: offsets 1 to 4 have expired unread. The log starts",
            4,
            7,
        ),
        (
            1,
            3,
            RecordsExpired,
            "t-0: offsets 1 to 3 have expired unread. The log starts",
            3,
            3,
        ),
        (9, 12, OffsetBeyondLog, "t-0: offset 9 lies past the log end 8", 9, 9),
    ],
)
def test_reposition(
    cluster: Cluster,
    start: int,
    end: int,
    kind: type[DataLoss],
    told: str,
    offset: int,
    until: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An offset out of range has expired or lies past the end; what is left is read on."""
    deadline = time.monotonic() + 60
    with pytest.raises(kind, match=told):
        recovery.reposition(progress(start, end), cluster, deadline, fail=True)
    left = progress(start, end)

    assert recovery.reposition(left, cluster, deadline, fail=False)
    assert (offset, until) == (left.offset, left.end)
    assert told in caplog.text


def test_reposition_in_range(cluster: Cluster) -> None:
    """An offset that is in range keeps its place."""
    left = progress(5, 8, last_fetched_epoch=3)

    assert not recovery.reposition(left, cluster, time.monotonic() + 60, fail=True)
    assert (5, 8, -1) == (left.offset, left.end, left.last_fetched_epoch)


@pytest.mark.parametrize("fail", [True, False])
def test_reposition_without_the_partition(
    kafka: LittleKafka, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, fail: bool
) -> None:
    """The range of a partition that is gone keeps its place; looking for its leader tells."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)
    del kafka.topics["t"]
    left = progress(5, 8, last_fetched_epoch=3)

    assert not recovery.reposition(left, cluster, time.monotonic() + 60, fail=fail)
    assert (5, 8, 3) == (left.offset, left.end, left.last_fetched_epoch)


@pytest.mark.parametrize("fail", [True, False])
def test_no_such_epoch(
    kafka: LittleKafka, cluster: Cluster, fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that knows no such epoch proves no loss. The range asks again later, and gives the
    epoch up with one warning if no leader knows it."""
    kafka.log(T0).epoch = 3
    left = progress(5, 8, last_fetched_epoch=5)
    deadline = time.monotonic() + 60
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not recovery.reposition(left, cluster, deadline, fail=fail)
            assert (5, 8, 5) == (left.offset, left.end, left.last_fetched_epoch)
        assert [] == caplog.messages
        assert not recovery.reposition(left, cluster, deadline, fail=fail)

    assert (5, 8, -1) == (left.offset, left.end, left.last_fetched_epoch)
    (warning,) = caplog.messages
    assert "no broker knows leader epoch 5" in warning


def test_epoch_that_is_unknown(kafka: LittleKafka, cluster: Cluster) -> None:
    """A leader that has our last record under a later epoch has lost it, and says out of range."""
    base, after, _, data = kafka.log(T0).batches[0]
    kafka.log(T0).batches[0] = (base, after, 7, data)
    kafka.log(T0).epoch = 7
    deadline = time.monotonic() + 60
    with pytest.raises(LogTruncated, match="t-0 was truncated at offset 4"):
        recovery.reposition(progress(5, 8, last_fetched_epoch=2), cluster, deadline, fail=True)
    left = progress(5, 8, last_fetched_epoch=2)

    assert recovery.reposition(left, cluster, deadline, fail=False)
    assert (5, 5) == (left.offset, left.end)


def test_epoch_that_has_expired(kafka: LittleKafka, cluster: Cluster) -> None:
    """At the log start there is no record before the position to disagree about."""
    base, after, _, data = kafka.log(T0).batches[0]
    kafka.log(T0).batches[0] = (base, after, 7, data)
    left = progress(4, 8, last_fetched_epoch=2)

    assert not recovery.reposition(left, cluster, time.monotonic() + 60, fail=True)
    assert (4, 8, -1) == (left.offset, left.end, left.last_fetched_epoch)


def test_diverged_below_the_position() -> None:
    """A history that leaves ours below the position is a truncation."""
    with pytest.raises(
        LogTruncated,
        match=r"t-0 was truncated at offset 3 \(leader epoch 1\). The records up to offset 5, of "
        r"leader epoch 2, are lost",
    ):
        recovery.diverged(progress(last_fetched_epoch=2), 1, 3, fail=True)


def test_diverged_going_on() -> None:
    """With failOnDataLoss=false the range ends: the driver goes on from the cut, and nothing
    comes twice."""
    left = progress(last_fetched_epoch=2)
    recovery.diverged(left, 1, 3, fail=False)

    assert (5, 5) == (left.offset, left.end)
    assert left.done


def test_epoch_without_records_is_no_divergence() -> None:
    """The broker's own epoch is taken, and given up when that settles nothing."""
    left = progress(last_fetched_epoch=2)
    recovery.diverged(left, 1, 5, fail=True)
    assert 1 == left.last_fetched_epoch
    recovery.diverged(left, 1, 5, fail=True)

    assert -1 == left.last_fetched_epoch


def test_progress_passes_batches() -> None:
    """A range advances behind complete batches only, and remembers their epoch."""
    made = progress()

    assert not made.advance(Extent(next_offset=5, leader_epoch=-1, size=0, batches=0))
    assert (5, -1) == (made.offset, made.last_fetched_epoch)
    assert made.advance(Extent(next_offset=8, leader_epoch=2, size=9, batches=1))
    assert (8, 2, False) == (made.offset, made.last_fetched_epoch, made.done)
    assert made.advance(Extent(next_offset=11, leader_epoch=2, size=9, batches=1))
    assert made.done


def test_position_of_a_range() -> None:
    """The session is told topic id, offset and both epochs."""
    position = progress(last_fetched_epoch=2).position(77)

    assert (ID, 5, 77, 3, 2) == (
        position.topic_id,
        position.offset,
        position.max_bytes,
        position.leader_epoch,
        position.last_fetched_epoch,
    )


def _two_epochs(base: int) -> bytes:
    """Two records of epoch 3 from ``base`` on, and one of epoch 4 after them."""
    return batch(record(), record(offset=1), base=base, epoch=3) + batch(
        record(), base=base + 2, epoch=4
    )


@pytest.mark.parametrize(
    ("end_epoch", "end", "base", "expected"),
    [
        pytest.param(3, 9, 5, 7, id="the records of the later epoch stay out"),
        pytest.param(3, 7, 5, None, id="the later epoch begins behind the range"),
        pytest.param(4, 9, 5, None, id="the end is of the later epoch too"),
        pytest.param(-1, 9, 5, None, id="nobody knows the epoch of the end"),
        pytest.param(3, 9, 2, 5, id="the log was cut below the position"),
    ],
)
def test_a_range_ends_where_its_log_was_rewritten(
    end_epoch: int, end: int, base: int, expected: int | None
) -> None:
    """Records of a later epoch than that of the planned end came after a truncation. The driver
    reads them with the next micro-batch, so the range ends before them."""
    left = progress(end=end)
    left.range = replace(left.range, end_epoch=end_epoch)
    data = memoryview(_two_epochs(base))
    left.end_before_truncation(data, extent(data, left.offset))
    assert left.end == (end if expected is None else expected)
    if expected is None:
        recovery.rewritten(left, fail=True)
    else:
        with pytest.raises(LogTruncated, match="up to offset 9, of leader epoch 3, are lost"):
            recovery.rewritten(left, fail=True)
        recovery.rewritten(left, fail=False)
