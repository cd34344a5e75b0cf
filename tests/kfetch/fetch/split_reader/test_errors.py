"""Errors of brokers: which pass, which fail the task, and what the error then tells."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.errors import (
    BrokerError,
    KfetchError,
    WireError,
)
from tests.kfetch.fetch.split_reader.helpers import T0, expected, part, query, rows
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence

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

    # Twice a pause of 40 ms and more: the partition is forgotten, then asked for again.
    assert len(kafka.asked(FetchRequest)) <= 25


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
