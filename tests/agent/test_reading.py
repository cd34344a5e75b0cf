"""Reading splits end to end over a little Kafka: the right rows, once, whatever brokers do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from wire.little import LittleKafka
from wire.scripted import Close, Silence, wrong_id

from spark_source import options as parsing
from spark_source.agent import stats
from spark_source.agent.inline import Query
from spark_source.errors import (
    BrokerError,
    DataLoss,
    KfetchError,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
    WireError,
)
from spark_source.model import OffsetRange, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Rows = list[tuple[str, int, int, bytes]]


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Two nodes; t-0 on the first with 6 records, t-1 on the second with 4."""
    with LittleKafka(2) as running:
        running.create("t", 2)
        for tp, batches in ((T0, 3), (T1, 2)):
            for n in range(batches):
                name = f"{tp} {n}"
                running.log(tp).append(f"{name}a".encode(), f"{name}b".encode())
        yield running


_queries: list[Query] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Every query of a test is closed behind it."""
    yield
    while _queries:
        _queries.pop().close()


def query(kafka: LittleKafka, **given: str) -> Query:
    """A query's sessions in this process, with short pauses."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.request.timeout.ms": "5000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
        "kafka.max.partition.fetch.bytes": "1",  # one batch in a reply
    }
    chosen |= {name.replace("__", "."): text for name, text in given.items()}
    _queries.append(Query("q", parsing.parse(chosen)))
    return _queries[-1]


def part(kafka: LittleKafka, tp: TopicPartition, start: int, end: int) -> OffsetRange:
    """A range, as the driver would plan it now."""
    log = kafka.log(tp)
    return OffsetRange(
        tp=tp,
        topic_id=kafka.topics[tp.topic].topic_id,
        start=start,
        end=end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[log.leader or 1].broker,
    )


def rows(batches: Any) -> Rows:
    """Topic, partition, offset and value of every record."""
    return [
        (row["topic"], row["partition"], row["offset"], row["value"])
        for batch in batches
        for row in batch.to_pylist()
    ]


def expected(kafka: LittleKafka, *ranges: OffsetRange) -> Rows:
    """What the log has in the ranges."""
    return [
        (item.tp.topic, item.tp.partition, at, kafka.log(item.tp).values[at])
        for item in ranges
        for at in range(item.start, item.end)
    ]


def by_partition(found: Rows) -> Rows:
    """Partitions one after the other; the order within each stays."""
    return sorted(found, key=lambda row: row[:2])


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
@pytest.mark.parametrize("max_bytes", ["1", "1048576"])
def test_rows(version: int, max_bytes: str) -> None:
    """Every record of the ranges is delivered once, in order within each partition."""
    with LittleKafka(2, {FetchRequest: (0, version)}) as kafka:
        kafka.create("t", 2)
        for n in range(5):
            kafka.log(T0).append(b"%d" % n, b"x")
            kafka.log(T1).append(b"%d" % n)
        ranges = [part(kafka, T0, 0, 10), part(kafka, T1, 0, 5)]
        reading = query(kafka, kafka__max__partition__fetch__bytes=max_bytes)

        assert expected(kafka, *ranges) == by_partition(rows(reading.read(ranges)))


@pytest.mark.parametrize(("start", "end"), [(0, 6), (1, 5), (2, 4), (3, 4), (5, 6), (0, 1)])
def test_cut_at_both_ends(kafka: LittleKafka, start: int, end: int) -> None:
    """A range that begins or ends within a batch is cut to the record."""
    item = part(kafka, T0, start, end)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_two_ranges_of_one_partition(kafka: LittleKafka) -> None:
    """Two ranges of a partition in one split are both read, one after the other."""
    ranges = [part(kafka, T0, 0, 3), part(kafka, T0, 4, 6), part(kafka, T1, 1, 2)]

    assert sorted(expected(kafka, *ranges)) == sorted(rows(query(kafka).read(ranges)))


def test_empty_split(kafka: LittleKafka) -> None:
    """Ranges without offsets ask nobody."""
    assert [] == rows(query(kafka).read([part(kafka, T0, 3, 3)]))
    assert [] == kafka.asked(FetchRequest)


def test_session_outlives_the_task(kafka: LittleKafka) -> None:
    """The next task's requests continue the session instead of opening one."""
    reading = query(kafka)
    rows(reading.read([part(kafka, T0, 0, 4)]))
    rows(reading.read([part(kafka, T0, 4, 6)]))

    assert 1 == len([r for r in kafka.asked(FetchRequest) if r.session_epoch == 0])
    assert 1 == reading.stats().sessions_opened
    assert 6 == reading.stats().records


def test_task_that_ends_early(kafka: LittleKafka) -> None:
    """A task that is given up half-way leaves nothing that the next one would deliver."""
    reading = query(kafka)
    batches = reading.read([part(kafka, T0, 0, 6)])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    again = [part(kafka, T0, 0, 6)]

    assert expected(kafka, *again) == rows(reading.read(again))


@pytest.mark.parametrize("hints", [True, False], ids=["hint in the reply", "metadata"])
def test_leader_moves(kafka: LittleKafka, hints: bool) -> None:
    """A leader that moves is followed, by the reply's hint (KIP-951) or by metadata."""
    kafka.hints = hints
    ranges = [part(kafka, T0, 0, 6), part(kafka, T1, 0, 4)]
    kafka.elect(T0, 2)

    assert expected(kafka, *ranges) == by_partition(rows(query(kafka).read(ranges)))
    assert hints is not bool(kafka.asked(MetadataRequest))


def test_leader_moves_midway(kafka: LittleKafka) -> None:
    """The same in the middle of a range, with nothing twice."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.elect(T0, 2)

    assert expected(kafka, item) == first + rows(batches)


def test_no_leader_for_a_while(kafka: LittleKafka) -> None:
    """While a partition has no leader its range waits."""
    item = part(kafka, T0, 0, 6)
    kafka.elect(T0, None)
    asked = []

    def metadata(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 4:
            kafka.elect(T0, 2)
        return kafka._metadata(request)

    for node in kafka.nodes.values():
        node.always(MetadataRequest, metadata)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_broker_dies_and_returns(kafka: LittleKafka) -> None:
    """A broker that dies in the middle and comes back is read on from the same offset."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.nodes[1].stop()
    kafka.evict()
    kafka.nodes[1].start()

    assert expected(kafka, item) == first + rows(batches)


@pytest.mark.parametrize("hostile", [Close(), wrong_id(lambda r: None)], ids=["close", "wrong id"])
def test_lost_replies(kafka: LittleKafka, hostile: Any) -> None:
    """Replies that are lost on the way are asked for again."""
    item = part(kafka, T0, 0, 6)
    if not isinstance(hostile, Close):
        hostile = wrong_id(lambda request: kafka._fetch(1, request))
    kafka.nodes[1].answer(FetchRequest, hostile, hostile)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_evicted_session(kafka: LittleKafka) -> None:
    """A session that is evicted in the middle costs nothing but a full request."""
    item = part(kafka, T0, 0, 6)
    reading = query(kafka)
    batches = reading.read([item])
    first = rows([next(batches)])
    kafka.evict()

    assert expected(kafka, item) == first + rows(batches)


RETRIABLE = [3, 5, 6, 9, 13, 56, 74, 75, 78, 100, 103]
FINAL = [2, 17, 29, 35, -1]


@pytest.mark.parametrize("code", RETRIABLE)
def test_retriable_errors(kafka: LittleKafka, code: int) -> None:
    """An error that passes is outlived, whatever its code."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [code] * 3

    assert expected(kafka, item) == rows(query(kafka).read([item]))


@pytest.mark.parametrize("code", FINAL)
def test_final_errors(kafka: LittleKafka, code: int) -> None:
    """An error that no retry mends fails the task at once, with partition, offset and broker."""
    item = part(kafka, T0, 2, 6)
    kafka.errors[T0] += [code] * 3
    with pytest.raises(BrokerError, match=r"fetching t-0 from offset 2 at broker 1 \(") as caught:
        rows(query(kafka).read([item]))

    assert (code, "t", 0, 2) == (
        caught.value.code,
        caught.value.topic,
        caught.value.partition,
        caught.value.offset,
    )
    assert 2 == len(kafka.errors[T0])


def _expired(kafka: LittleKafka) -> None:
    kafka.log(T0).expire(2)


def _beyond(kafka: LittleKafka) -> None:
    kafka.log(T0).truncate(2)


def _deleted(kafka: LittleKafka) -> None:
    del kafka.topics["t"]


def _shrunk(kafka: LittleKafka) -> None:
    kafka.topics["t"].logs.clear()


def _recreated(kafka: LittleKafka) -> None:
    kafka.create("t", 2)
    kafka.log(T0).append(*[b"new"] * 9)


# Damage, offset of the range's start, the error, and the offsets read with failOnDataLoss=false.
LOSSES = [
    (_expired, 0, RecordsExpired, [2, 3, 4, 5]),
    (_beyond, 4, OffsetBeyondLog, []),
    (_deleted, 0, PartitionGone, []),
    (_shrunk, 0, PartitionGone, []),
    (_recreated, 0, TopicRecreated, []),
]


@pytest.mark.parametrize(("damage", "start", "kind", "left"), LOSSES)
def test_losses_fail(
    kafka: LittleKafka, damage: Any, start: int, kind: type[DataLoss], left: list[int]
) -> None:
    """A range that the log no longer has fails the task with the loss's own error."""
    item = part(kafka, T0, start, 6)
    damage(kafka)
    with pytest.raises(kind) as caught:
        rows(query(kafka).read([item]))

    assert ("t", 0, start) == (caught.value.topic, caught.value.partition, caught.value.offset)


@pytest.mark.parametrize(("damage", "start", "kind", "left"), LOSSES)
def test_losses_passed_over(
    kafka: LittleKafka, damage: Any, start: int, kind: type[DataLoss], left: list[int]
) -> None:
    """With failOnDataLoss=false what is left of the range is read once, and at once."""
    item = part(kafka, T0, start, 6)
    damage(kafka)
    reading = query(kafka, failOnDataLoss="false")
    began = time.monotonic()

    assert left == [row[2] for row in rows(reading.read([item]))]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("fail", ["true", "false"])
def test_truncated_midway(kafka: LittleKafka, fail: str) -> None:
    """A log that is replaced behind the position is a truncation; with failOnDataLoss=false the
    range ends there, for the driver to go on from the cut."""
    log = kafka.log(T0)
    item = part(kafka, T0, 0, 6)
    batches = query(kafka, failOnDataLoss=fail).read([item])
    first = rows([next(batches)])
    log.truncate(0)
    kafka.elect(T0, 1)
    log.append(b"new 0")
    log.append(*[b"new"] * 5)
    if fail == "true":
        with pytest.raises(LogTruncated, match="t-0 was truncated at offset"):
            rows(batches)
    else:
        got = first + rows(batches)  # a reply was in flight, of the old log
        assert list(range(len(got))) == [row[2] for row in got]
        assert not any(row[-1].startswith(b"new") for row in got)


def test_epoch_without_records(kafka: LittleKafka) -> None:
    """Leaders that wrote nothing are no truncation."""
    kafka.log(T0).epoch = 2
    kafka.log(T0).append(b"e")
    kafka.elect(T0, 1)
    kafka.log(T0).append(b"f")
    item = part(kafka, T0, 0, 8)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


@pytest.mark.parametrize("code", [1, 6])
def test_no_hot_loop(kafka: LittleKafka, code: int) -> None:
    """An error that comes back every time is asked about with pauses, and told at the deadline."""
    item = part(kafka, T0, 0, 6)
    kafka.hints = False
    kafka.errors[T0] += [code] * 10_000
    reading = query(
        kafka,
        kafkaConsumer__pollTimeoutMs="400",
        kafka__retry__backoff__ms="50",
        kafka__retry__backoff__max__ms="50",
    )
    told = (
        r"t-0: no record from offset 0 on within 0.4 s \(kafkaConsumer.pollTimeoutMs\), at broker "
        rf"1 .*; the first cause: fetching t-0 from offset 0 at broker 1 .*\({code}\)"
    )
    with pytest.raises(KfetchError, match=told):
        rows(reading.read([item]))

    assert len(kafka.asked(FetchRequest)) <= 12


@pytest.mark.parametrize("both", [False, True])
def test_first_cause_is_told(kafka: LittleKafka, both: bool) -> None:
    """A broker that is gone for good fails the task at the deadline, with the first cause."""
    item = part(kafka, T0, 0, 6)
    for node in kafka.nodes if both else (1,):
        kafka.nodes[node].stop()
    reading = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    address = f"127.0.0.1:{kafka.nodes[1].port}"
    told = rf"t-0: no record from offset 0 .*; the first cause: no connection to {address}"
    with pytest.raises(KfetchError, match=told):
        rows(reading.read([item]))


def test_late_metadata_hides_no_cause(kafka: LittleKafka) -> None:
    """When even metadata comes no more, the first cause is told and not the silence."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [3]
    for node in kafka.nodes.values():
        node.always(MetadataRequest, Silence())
    reading = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    told = r"t-0: no record .*; the first cause: fetching t-0 from offset 0 at broker 1 .*\(3\)"
    with pytest.raises(KfetchError, match=told):
        rows(reading.read([item]))


def test_unauthorized_metadata(kafka: LittleKafka) -> None:
    """A look-up that is refused for good fails the task as what it is."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [3]

    def refused(request: Any) -> Any:
        reply = kafka._metadata(request)
        reply.topics[0].error_code = 29
        return reply

    for node in kafka.nodes.values():
        node.always(MetadataRequest, refused)
    with pytest.raises(BrokerError, match="asking for topic t: the broker answered"):
        rows(query(kafka).read([item]))


def test_silent_broker(kafka: LittleKafka) -> None:
    """A broker that never answers fails the task at the deadline."""
    item = part(kafka, T0, 0, 6)
    kafka.nodes[1].always(FetchRequest, Silence())
    reading = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    with pytest.raises(KfetchError, match="no reply within the deadline"):
        rows(reading.read([item]))


def test_corrupt_records(kafka: LittleKafka) -> None:
    """Records that fail their checks fail the task; they are never skipped."""
    base, after, epoch, data = kafka.log(T0).batches[1]
    kafka.log(T0).batches[1] = (base, after, epoch, data[:-1] + bytes([data[-1] ^ 1]))
    item = part(kafka, T0, 0, 6)
    with pytest.raises(
        WireError, match="topic t, partition 0, record batch at offset 2: its CRC does"
    ):
        rows(query(kafka).read([item]))


def test_corrupt_records_are_skipped_on_request(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """With kfetch.onCorruptBatch=skip a damaged batch is left out, told with its place, counted."""
    base, after, epoch, data = kafka.log(T0).batches[1]
    kafka.log(T0).batches[1] = (base, after, epoch, data[:-1] + bytes([data[-1] ^ 1]))
    reading = query(kafka, kfetch__onCorruptBatch="skip")

    assert [0, 1, 4, 5] == [
        offset for _, _, offset, _ in rows(reading.read([part(kafka, T0, 0, 6)]))
    ]
    assert 1 == reading.stats().batches_skipped
    assert "partition 0, record batch at offset 2: its CRC does not match" in caplog.text


def test_metadata_columns(kafka: LittleKafka) -> None:
    """The leader epoch and the sizes of key and value come as columns of their own."""
    reading = query(kafka, includeLeaderEpoch="true", includeSerializedSizes="true")
    (batch,) = reading.read([part(kafka, T0, 0, 2)])

    assert [0, 0] == batch.column("leaderEpoch").to_pylist()
    assert [None, None] == batch.column("serializedKeySize").to_pylist()
    values = batch.column("value").to_pylist()
    assert [len(value) for value in values] == batch.column("serializedValueSize").to_pylist()


def test_stats_file(kafka: LittleKafka, tmp_path: Path) -> None:
    """Each worker keeps a file with its totals current."""
    reading = query(kafka, kfetch__statsDirectory=str(tmp_path))
    rows(reading.read([part(kafka, T0, 0, 6)]))
    (path,) = tmp_path.iterdir()

    assert stats.read(tmp_path) == reading.stats()
    assert 6 == json.loads(path.read_text())["records"]
    rows(reading.read([part(kafka, T1, 0, 4)]))
    assert 10 == stats.read(tmp_path).records


def test_stats_of_all_workers(tmp_path: Path) -> None:
    """The files of a directory add up, over workers and queries."""
    for name in ("a", "b"):
        stats.write(str(tmp_path), name, stats.FetchStats(records=2, reply_bytes=3))

    assert stats.FetchStats(records=4, reply_bytes=6) == stats.read(tmp_path)


def test_stats_make_their_directory(tmp_path: Path) -> None:
    """The first worker that writes makes the directory."""
    stats.write(str(tmp_path / "new" / "one"), "q", stats.FetchStats(records=1))

    assert 1 == stats.read(tmp_path / "new" / "one").records


def test_stats_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Statistics that can't be written are logged, and fail nobody."""
    (tmp_path / "file").touch()
    stats.write(str(tmp_path / "file"), "q", stats.FetchStats())

    assert "fetch statistics can't be written" in caplog.text
