"""Asks whether the records of a log have the broker's time (LogAppendTime, KIP-32).

Two questions, because the topic's setting may have changed: DescribeConfigs tells the setting of
now, and a Fetch of one record batch tells the type of old records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kfetch import codes
from kfetch.model import FetchPosition, TopicPartition
from kfetch.options import FetchOptions
from kfetch.session.metadata import LEGACY
from kfetch.session.plan import FetchPlan
from kfetch.session.transitions import RequestKind
from kfetch.wire.connection import Connection
from kfetch.wire.fetch import read_reply, request, version_for

_TOPIC_RESOURCE = 2  # ConfigResource.Type.TOPIC
_SETTING = "message.timestamp.type"
_LIMITS = FetchOptions(max_bytes=1, max_wait_ms=0)

# Where the formats of record batches have their fields.
_MAGIC_AT = 16
_ATTRIBUTES_AT = {1: 17, 2: 22}  # by magic; of format 2 the low byte
_APPEND_TIME = 0x08


class FirstBatch(NamedTuple):
    """A partition's answer: the first record batch at an offset."""

    error: int
    append_time: bool
    """Whether its timestamps are those of the broker. False if there is no batch."""


def append_time_topics(
    connection: Connection, topics: Collection[str], deadline: float
) -> set[str]:
    """Returns the topics whose setting is LogAppendTime now.

    A topic whose settings this user may not read is left out.
    """
    # Only batch reads with a bound of time need this import.
    from kafka.protocol.admin.configs import DescribeConfigsRequest as describe

    if not connection.speaks(describe, 1):
        return set()
    version = connection.version(describe, lowest=1)
    resources = [
        describe.DescribeConfigsResource(
            version=version,
            resource_type=_TOPIC_RESOURCE,
            resource_name=topic,
            configuration_keys=[_SETTING],
        )
        for topic in sorted(topics)
    ]
    reply = connection.call(describe[version](resources=resources), deadline)
    return {
        result.resource_name
        for result in reply.results
        if result.error_code == codes.NONE
        and [(_SETTING, "LogAppendTime")] == [(c.name, c.value) for c in result.configs]
    }


def first_batches(
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    leader_epochs: Mapping[TopicPartition, int],
    deadline: float,
) -> dict[TopicPartition, FirstBatch]:
    """Returns what the first record batch at each offset says.

    One request per partition: a broker sends a whole batch above the limit only for the first
    partition of a request (KIP-74). ``leader_epochs``: the epochs of the known leaders.
    """
    return {
        tp: _first_batch(connection, tp, offset, leader_epochs.get(tp, -1), deadline)
        for tp, offset in offsets.items()
    }


def _first_batch(
    connection: Connection, tp: TopicPartition, offset: int, leader_epoch: int, deadline: float
) -> FirstBatch:
    position = FetchPosition(offset=offset, max_bytes=1, leader_epoch=leader_epoch)
    plan = FetchPlan(
        request=RequestKind.SESSIONLESS,
        metadata=LEGACY,
        send={tp: position},
        uses_topic_ids=False,
        request_token=None,
    )
    version = version_for(connection, plan)
    connection.send(request(plan, version, _LIMITS))
    _, frame = connection.receive(deadline)
    reply = read_reply(frame, version)
    if reply.error:
        return FirstBatch(reply.error, append_time=False)
    for partition in reply.partitions:
        return FirstBatch(partition.error, has_append_time(partition.records))
    return FirstBatch(codes.NONE, append_time=False)


def has_append_time(records: memoryview | bytes) -> bool:
    """Returns whether the first record batch in ``records`` has LogAppendTime."""
    if len(records) <= max(_ATTRIBUTES_AT.values()):
        return False
    at = _ATTRIBUTES_AT.get(records[_MAGIC_AT])
    return at is not None and bool(records[at] & _APPEND_TIME)
