"""Whose time the records of a log have: the topic's setting, and the type of a record batch."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse

from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions
from kfetch.wire.connection import Connection
from kfetch.wire.timestamp_types import (
    FirstBatch,
    append_time_topics,
    first_batches,
    has_append_time,
)
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DEADLINE_S = 5.0


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with one batch in partition 0, and an empty partition 1."""
    with LittleKafka(versions={DescribeConfigsRequest: (1, 4)}) as running:
        running.create("t", 2)
        running.log(T0).append(b"a", b"b")
        yield running


@pytest.fixture
def connection(kafka: LittleKafka) -> Iterator[Connection]:
    """A connection to its broker."""
    deadline = time.monotonic() + DEADLINE_S
    opened = Connection.open("127.0.0.1", kafka.nodes[1].port, NetworkOptions(), deadline)
    yield opened
    opened.close()


def append_time(data: bytes) -> bytes:
    """Returns a batch of format 2 with the attribute that a broker sets."""
    changed = bytearray(data)
    changed[22] |= 0x08
    return bytes(changed)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (b"", False),
        (batch(0, [b"a"])[:22], False),
        (batch(0, [b"a"]), False),
        (append_time(batch(0, [b"a"])), True),
        (append_time(batch(0, [b"a"]))[:61], True),
        (bytes(16) + b"\x01\x08" + bytes(20), True),
        (bytes(16) + b"\x01\x00" + bytes(20), False),
        (bytes(16) + b"\x00\x08" + bytes(20), False),
    ],
)
def test_first_batch(records: bytes, expected: bool) -> None:
    """Formats 1 and 2 have the type in their attributes. Format 0 has no timestamps."""
    assert expected is has_append_time(records)


def test_first_batches(kafka: LittleKafka, connection: Connection) -> None:
    """Each partition answers with its own batch, and an empty one with none."""
    log = kafka.log(T0)
    create_time = first_batches(connection, {T0: 0, T1: 0}, {}, time.monotonic() + DEADLINE_S)
    base, after, epoch, data = log.batches[0]
    log.batches[0] = base, after, epoch, append_time(data)

    changed = first_batches(connection, {T0: 1}, {T0: 0}, time.monotonic() + DEADLINE_S)

    nothing = FirstBatch(0, append_time=False)
    assert {T0: nothing, T1: nothing} == create_time
    assert {T0: FirstBatch(0, append_time=True)} == changed
    assert [] == kafka.sessions()


def test_a_new_leader(kafka: LittleKafka, connection: Connection) -> None:
    """An error of the broker is part of the answer, for the caller's retries."""
    kafka.elect(T0, None)

    (answer,) = first_batches(connection, {T0: 0}, {}, time.monotonic() + DEADLINE_S).values()

    assert FirstBatch(6, append_time=False) == answer


def test_settings(kafka: LittleKafka, connection: Connection) -> None:
    """Only topics whose setting is LogAppendTime count; one that may not be asked is left out."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult

    def answer(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        version = request.API_VERSION
        types = {"a": "LogAppendTime", "b": "CreateTime", "c": None}
        return DescribeConfigsResponse(
            version=version,
            throttle_time_ms=0,
            results=[
                result(
                    version=version,
                    error_code=0 if types[asked.resource_name] else 29,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[
                        config(
                            version=version,
                            name=asked.configuration_keys[0],
                            value=types[asked.resource_name],
                            read_only=False,
                            is_sensitive=False,
                        )
                    ],
                )
                for asked in request.resources
            ],
        )

    kafka.nodes[1].always(DescribeConfigsRequest, answer)

    assert {"a"} == append_time_topics(connection, "abc", time.monotonic() + DEADLINE_S)


def test_an_old_broker() -> None:
    """A broker that does not describe settings tells nothing."""
    with LittleKafka() as kafka:
        deadline = time.monotonic() + DEADLINE_S
        opened = Connection.open("127.0.0.1", kafka.nodes[1].port, NetworkOptions(), deadline)

        assert set() == append_time_topics(opened, ["t"], deadline)
        opened.close()
