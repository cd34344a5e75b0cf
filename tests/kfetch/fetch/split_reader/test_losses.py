"""Ranges that the log no longer has: the error of each, and the records read without an error."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch import losses
from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    ReadStalled,
    RecordsExpired,
    TopicRecreated,
)
from tests.kfetch.fetch.helpers import T0, expected, part, query, rows
from tests.kfetch.wire.little import LittleKafka


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
    """Each kind of loss fails the task with its own error."""
    item = part(kafka, T0, start, 6)
    damage(kafka)
    with pytest.raises(kind) as caught:
        rows(query(kafka).read([item]))

    assert ("t", 0, start) == (caught.value.topic, caught.value.partition, caught.value.offset)


@pytest.mark.parametrize(("damage", "start", "kind", "left"), LOSSES)
def test_losses_without_failing(
    kafka: LittleKafka, damage: Any, start: int, kind: type[DataLoss], left: list[int]
) -> None:
    """With failOnDataLoss=false the remaining records of the range are read once, without delay."""
    item = part(kafka, T0, start, 6)
    damage(kafka)
    inline_query = query(kafka, failOnDataLoss="false")
    began = time.monotonic()

    assert left == [row[2] for row in rows(inline_query.read([item]))]
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("fail", ["true", "false"])
def test_truncated_midway(kafka: LittleKafka, fail: str) -> None:
    """If the log below the position was replaced, LogTruncated is raised. With failOnDataLoss=false
    the range ends there, and the driver goes on from the truncation."""
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
        all_rows = first + rows(batches)  # a reply was in flight, of the old log
        assert list(range(len(all_rows))) == [row[2] for row in all_rows]
        assert not any(row[-1].startswith(b"new") for row in all_rows)


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize(("start", "read"), [(0, [0, 1, 2, 3]), (4, [])])
def test_truncated_at_the_position(
    kafka: LittleKafka, fail: str, start: int, read: list[int]
) -> None:
    """An election cuts the log where the task stands, and nobody writes. The new leader sends
    neither records nor an error. At the deadline it is asked where the range's epoch ends."""
    item = replace(part(kafka, T0, start, 6), end_epoch=0)
    kafka.log(T0).truncate(4)
    kafka.elect(T0, 2)
    batches = query(kafka, failOnDataLoss=fail, kafkaConsumer__pollTimeoutMs="300").read([item])
    if fail == "true":
        with pytest.raises(LogTruncated, match=r"t-0 was truncated at offset 4 .* offset 6"):
            rows(batches)
    else:
        assert read == [row[2] for row in rows(batches)]


def test_no_records_without_a_truncation(kafka: LittleKafka) -> None:
    """A leader that has all of the range's records and sends none is no loss."""
    item = replace(part(kafka, T0, 0, 6), end_epoch=0)
    kafka.elect(T0, 2)

    def empty(request: Any) -> Any:
        reply = kafka.fetch(2, request)
        for topic in reply.responses:
            for partition in topic.partitions:
                partition.records = b""
        return reply

    kafka.nodes[2].always(FetchRequest, empty)
    with pytest.raises(ReadStalled, match="t-0: no record from offset 0"):
        rows(query(kafka, kafkaConsumer__pollTimeoutMs="300").read([item]))


def test_epoch_without_records(kafka: LittleKafka) -> None:
    """An epoch without records is no truncation."""
    kafka.log(T0).epoch = 2
    kafka.log(T0).append(b"e")
    kafka.elect(T0, 1)
    kafka.log(T0).append(b"f")
    item = part(kafka, T0, 0, 8)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_one_broker_with_the_deleted_topic(kafka: LittleKafka) -> None:
    """A task asks several brokers before a topic counts as created again."""
    old = kafka.topics["t"]
    kafka.create("t", 2)
    for n in range(3):
        kafka.log(T0).append(b"%d" % n)
    item = part(kafka, T0, 0, 3)
    kafka.elect(T0, 2)
    kafka.hints = False
    kafka.nodes[1].always(
        MetadataRequest, lambda r: kafka.answer_with({"t": old}, kafka.metadata, r)
    )

    assert expected(kafka, item) == rows(query(kafka, failOnDataLoss="false").read([item]))


def test_one_broker_that_hides_the_topic(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task whose only connected broker no longer knows the topic asks another broker."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 10.0)
    item = part(kafka, T0, 0, 6)
    kafka.isolate(1, without="t")
    kafka.elect(T0, 2)

    assert expected(kafka, item) == rows(query(kafka).read([item]))
