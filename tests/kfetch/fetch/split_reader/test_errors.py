"""Errors of brokers: some pass, others fail the task with an error that names the cause."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import (
    BrokerError,
    KfetchError,
    ReadStalled,
    WireError,
)
from kfetch.fetch.arrivals import PartitionFailed
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.split_reader import SplitReader
from kfetch.fetch.totals import Totals
from kfetch.session.replies import PartitionReply
from kfetch.wire import probes
from kfetch.wire.messages import ListedOffset
from kfetch.wire.retry import RetryPauses
from tests.kfetch.fetch.helpers import T0, T1, by_partition, expected, part, query, rows
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import ILLEGAL_SASL_STATE, Close, Mangled, Silence

RETRIABLE = [-1, 3, 5, 6, 9, 13, 56, 74, 75, 78, 100, 103]
FINAL = [2, 17, 29, 35]


@pytest.mark.parametrize("code", RETRIABLE)
def test_retriable_errors(kafka: LittleKafka, code: int) -> None:
    """A retriable error does not fail the task, whatever its code."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [code] * 3

    assert expected(kafka, item) == rows(query(kafka).read([item]))


@pytest.mark.parametrize("code", FINAL)
def test_final_errors(kafka: LittleKafka, code: int) -> None:
    """A final error fails the task at once. It names the partition, the offset and the broker."""
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


@pytest.mark.parametrize("code", [-1, 1, 6])
def test_no_hot_loop(kafka: LittleKafka, code: int) -> None:
    """A retriable error that never passes is retried with back-off and raised at the deadline."""
    item = part(kafka, T0, 0, 6)
    kafka.hints = False
    kafka.errors[T0] += [code] * 10_000
    inline_query = query(
        kafka,
        kafkaConsumer__pollTimeoutMs="400",
        kafka__retry__backoff__ms="50",
        kafka__retry__backoff__max__ms="50",
    )
    message = (
        r"t-0: no record from offset 0 on within 0.4 s \(kafkaConsumer.pollTimeoutMs\), at broker "
        rf"1 .*; the first cause: fetching t-0 from offset 0 at broker 1 .*\({code}\)"
    )
    with pytest.raises(KfetchError, match=message):
        rows(inline_query.read([item]))

    # Two pauses of 40 ms and more: the session forgets the partition, then adds it again.
    assert len(kafka.asked(FetchRequest)) <= 25


def test_an_advancing_range_does_not_end_the_back_off_of_another(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the leader of one range keeps refusing, the records of another range reset no pause."""
    kafka.hints = False
    for _ in range(96):
        kafka.log(T1).append(b"y")
    kafka.errors[T0] += [6] * 5
    pauses: list[float] = []
    next_pause_s = RetryPauses.next_pause_s

    def short_pause(self: RetryPauses) -> float:
        pauses.append(next_pause_s(self))
        return 0.001

    monkeypatch.setattr(RetryPauses, "next_pause_s", short_pause)
    ranges = [part(kafka, T0, 0, 6), part(kafka, T1, 0, 100)]
    inline_query = query(
        kafka, kafka__retry__backoff__ms="10", kafka__retry__backoff__max__ms="1000"
    )
    assert expected(kafka, *ranges) == by_partition(rows(inline_query.read(ranges)))

    assert 1 == len([pause_s for pause_s in pauses if pause_s < 0.015])
    assert len(pauses) >= 10


@pytest.mark.parametrize("both", [False, True])
def test_the_error_names_the_first_cause(kafka: LittleKafka, both: bool) -> None:
    """If a broker never comes back, the task fails at the deadline and names the first cause."""
    item = part(kafka, T0, 0, 6)
    for node in kafka.nodes if both else (1,):
        kafka.nodes[node].stop()
    inline_query = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    address = f"127.0.0.1:{kafka.nodes[1].port}"
    message = rf"t-0: no record from offset 0 .*; the first cause: no connection to {address}"
    with pytest.raises(KfetchError, match=message):
        rows(inline_query.read([item]))


def test_silent_metadata_hides_no_cause(kafka: LittleKafka) -> None:
    """If metadata requests get no answer either, the error still names the first cause."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [3]
    for node in kafka.nodes.values():
        node.always(MetadataRequest, Silence())
    inline_query = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    message = r"t-0: no record .*; the first cause: fetching t-0 from offset 0 at broker 1 .*\(3\)"
    with pytest.raises(KfetchError, match=message):
        rows(inline_query.read([item]))


def test_unauthorized_metadata(kafka: LittleKafka) -> None:
    """If the broker refuses a metadata request for good, the task fails with that error."""
    item = part(kafka, T0, 0, 6)
    kafka.errors[T0] += [3]

    def refused(request: Any) -> Any:
        reply = kafka.metadata(request)
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
    inline_query = query(kafka, kafkaConsumer__pollTimeoutMs="200")
    with pytest.raises(KfetchError, match="no reply within the deadline"):
        rows(inline_query.read([item]))


class _Silent:
    """A source without arrivals: the broker is asked for one range, and another one waits."""

    batch_bytes = 1

    def add(self, ranges: object) -> None:
        pass

    drop = add

    def requested_since(self, progress: RangeProgress) -> float:
        return time.monotonic() if progress.tp == T1 else 0.0

    def next(self, until: float, deadline: float) -> list[Any]:
        time.sleep(max(0.0, until - time.monotonic()))
        return []


def test_a_sibling_that_waits_gives_ten_timeouts_at_most(kafka: LittleKafka) -> None:
    """A range whose broker is silent waits as long as its siblings, and then the read fails."""
    ranges = [part(kafka, T0, 0, 6), part(kafka, T1, 0, 6)]
    asked = query(kafka, kafkaConsumer__pollTimeoutMs="30").options
    no_replicas: Any = SimpleNamespace(place=lambda _: None, return_to_leader=lambda _: None)
    nobody: Any = None
    source: Any = _Silent()
    reader = SplitReader(ranges, asked, nobody, source, Totals(), nobody, no_replicas)
    began = time.monotonic()

    with pytest.raises(ReadStalled, match=r"memory \(kfetch.agent.memory\) or another reader"):
        list(reader.deliveries())
    assert time.monotonic() - began >= 0.3


def test_the_last_range_that_is_lost_at_the_deadline(kafka: LittleKafka) -> None:
    """With failOnDataLoss=false, a read is over when its last range is lost. It has no range then
    that could be late."""
    options = query(kafka, kafkaConsumer__pollTimeoutMs="30", failOnDataLoss="false").options
    expired = ListedOffset(error=0, offset=9, leader_epoch=0)
    cluster: Any = SimpleNamespace(offsets=lambda asked, *_, **__: dict.fromkeys(asked, expired))
    no_replicas: Any = SimpleNamespace(place=lambda _: None, return_to_leader=lambda _: None)
    nobody: Any = None
    reply = PartitionReply(
        key=("t", 0),
        error=1,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging=None,
        leader=None,
        aborted=(),
        preferred_read_replica=-1,
        records=memoryview(b""),
    )

    class Late(_Silent):
        def add(self, ranges: Any) -> None:
            self.ranges = ranges

        def next(self, until: float, deadline: float) -> list[Any]:
            super().next(until, deadline)
            return [PartitionFailed(progress=self.ranges[0], partition=reply, reply=nobody)]

    source: Any = Late()
    ranges = [part(kafka, T0, 0, 6)]
    reader = SplitReader(ranges, options, cluster, source, Totals(), nobody, no_replicas)

    assert [] == list(reader.deliveries())


def test_a_wrong_listener_is_the_first_cause(kafka: LittleKafka) -> None:
    """A task retries at a listener that wants a log-in. Its error names that, no earlier cause."""
    item = part(kafka, T0, 0, 6)
    node = kafka.nodes[1]
    node.answer(FetchRequest, Mangled(kafka.of_node(1, kafka.fetch), lambda frame: b"\0\0\0\0"))
    node.always(FetchRequest, Close())
    answers = iter([ILLEGAL_SASL_STATE])
    node.always(
        SaslHandshakeRequest,
        lambda _: SaslHandshakeResponse(error_code=next(answers, 33), mechanisms=["PLAIN"]),
    )
    inline_query = query(kafka, kafkaConsumer__pollTimeoutMs="1500")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "_DOUBT_VALID_S", 0.0)
        patch.setattr(probes, "_PROBE_MIN_S", 0.0)
        with pytest.raises(ReadStalled, match=r"the first cause: .* expects a log-in by SASL"):
            rows(inline_query.read([item]))

    assert 2 < len(kafka.asked(FetchRequest))


def test_corrupt_records(kafka: LittleKafka) -> None:
    """Records that fail their checks fail the task. By default kfetch never skips them."""
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
    """With onCorruptBatch=skip the reader skips a damaged batch, logs its place and counts it."""
    base, after, epoch, data = kafka.log(T0).batches[1]
    kafka.log(T0).batches[1] = (base, after, epoch, data[:-1] + bytes([data[-1] ^ 1]))
    inline_query = query(kafka, kfetch__onCorruptBatch="skip")

    assert [0, 1, 4, 5] == [
        offset for _, _, offset, _ in rows(inline_query.read([part(kafka, T0, 0, 6)]))
    ]
    assert 1 == inline_query.stats().batches_skipped
    assert "partition 0, record batch at offset 2: its CRC does not match" in caplog.text
