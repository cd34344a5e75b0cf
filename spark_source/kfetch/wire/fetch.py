"""Fetch, the one big message: a session's plan to a request, a reply's frame to views.

kafka-python encodes the requests. It would copy the record bytes of replies, so ``read_reply``
decodes them: it walks the frame once and returns memoryviews into it. Versions 4 to 18. The tests
compare it with kafka-python's decoder. References: KIP-227 (sessions), KIP-320 (epochs), KIP-516
(topic ids), KIP-951 (new leaders in the reply).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest

from kfetch.errors import WireError
from kfetch.model import Broker
from kfetch.options import FetchOptions
from kfetch.session.plan import FetchPlan
from kfetch.session.replies import TOPIC_ID_VERSION, FetchReply, PartitionReply
from kfetch.wire.connection import Connection
from kfetch.wire.reader import Reader

LOWEST_VERSION = 4  # record batches v2; Kafka 0.11
HIGHEST_VERSION = 18
SESSION_VERSION = 7

_FLEXIBLE_VERSION = 12
_TAG_NODE_ENDPOINTS = 0
_TAG_DIVERGING_EPOCH = 0
_TAG_CURRENT_LEADER = 1
_EPOCH_END = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")


def knows_topic_ids(connection: Connection) -> bool:
    """Returns whether the broker speaks a version with topic ids (KIP-516)."""
    return connection.speaks(FetchRequest, TOPIC_ID_VERSION)


def version_for(connection: Connection, plan: FetchPlan) -> int:
    """Returns the newest version for a plan's request. Raises UnsupportedVersion."""
    highest = HIGHEST_VERSION if plan.uses_topic_ids else TOPIC_ID_VERSION - 1
    return connection.version(FetchRequest, lowest=LOWEST_VERSION, highest=highest)


def request(plan: FetchPlan, version: int, options: FetchOptions, rack: str = "") -> Any:
    """Returns kafka-python's FetchRequest for a session's plan.

    ``rack``: asks leaders for a follower in this rack (KIP-392, v11 and later); empty asks nothing.
    """
    message = FetchRequest[version]
    return message(
        replica_id=-1,
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=options.isolation_level,
        session_id=plan.session_id,
        session_epoch=plan.epoch,
        topics=_topics_to_send(plan, version),
        forgotten_topics_data=_topics_to_forget(plan, version),
        rack_id=rack,
    )


def _topics_to_send(plan: FetchPlan, version: int) -> list[Any]:
    grouped: dict[tuple[str, UUID], list[Any]] = {}
    for tp, position in plan.send.items():
        entry = FetchRequest.FetchTopic.FetchPartition(
            version=version,
            partition=tp.partition,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=-1,
            partition_max_bytes=position.max_bytes,
        )
        grouped.setdefault((tp.topic, position.topic_id), []).append(entry)
    return [
        FetchRequest.FetchTopic(version=version, topic=topic, topic_id=topic_id, partitions=entries)
        for (topic, topic_id), entries in grouped.items()
    ]


def _topics_to_forget(plan: FetchPlan, version: int) -> list[Any]:
    grouped: dict[tuple[str, UUID], list[int]] = {}
    for topic_id, tp in plan.forget:
        grouped.setdefault((tp.topic, topic_id), []).append(tp.partition)
    return [
        FetchRequest.ForgottenTopic(
            version=version, topic=topic, topic_id=topic_id, partitions=partitions
        )
        for (topic, topic_id), partitions in grouped.items()
    ]


def read_reply(frame: memoryview, version: int) -> FetchReply:
    """Decodes the frame of a reply, without its length. Raises WireError."""
    reader = Reader(frame, flexible=version >= _FLEXIBLE_VERSION)
    try:
        reader.int32()  # correlation id, checked by the connection
        reader.tags()
        reply = _read_body(reader, version)
    except (IndexError, ValueError, struct.error) as cause:
        raise WireError(f"a Fetch reply (v{version}) can't be decoded: {cause}") from None
    if reader.remaining_bytes:
        raise WireError(f"a Fetch reply (v{version}) has {reader.remaining_bytes} bytes too many")
    return reply


def _read_body(reader: Reader, version: int) -> FetchReply:
    throttle_ms = reader.int32()
    error = reader.int16() if version >= SESSION_VERSION else 0
    session_id = reader.int32() if version >= SESSION_VERSION else 0
    partitions = [partition for _ in reader.array() for partition in _read_topic(reader, version)]
    tags = reader.tags()
    return FetchReply(
        version=version,
        throttle_ms=throttle_ms,
        error=error,
        session_id=session_id,
        partitions=tuple(partitions),
        endpoints=_read_endpoints(tags.get(_TAG_NODE_ENDPOINTS)),
    )


def _read_topic(reader: Reader, version: int) -> Iterable[PartitionReply]:
    topic = reader.uuid() if version >= TOPIC_ID_VERSION else reader.string()
    partitions = [_read_partition(reader, version, topic) for _ in reader.array()]
    reader.tags()
    return partitions


def _read_partition(reader: Reader, version: int, topic: str | UUID) -> PartitionReply:
    partition, error, high_watermark, last_stable = reader.unpack(_PARTITION_HEAD)
    log_start = reader.int64() if version >= 5 else -1
    aborted = tuple(_read_aborted(reader) for _ in reader.array())
    preferred = reader.int32() if version >= 11 else -1
    records = reader.bytes()
    tags = reader.tags()
    return PartitionReply(
        key=(topic, partition),
        error=error,
        high_watermark=high_watermark,
        last_stable_offset=last_stable,
        log_start_offset=log_start,
        diverging=_tagged_pair(tags.get(_TAG_DIVERGING_EPOCH), _EPOCH_END),
        leader=_tagged_pair(tags.get(_TAG_CURRENT_LEADER), _LEADER),
        aborted=aborted,
        preferred_read_replica=preferred,
        records=records,
    )


_PARTITION_HEAD = struct.Struct(">ihqq")
_ABORTED = struct.Struct(">qq")


def _read_aborted(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.unpack(_ABORTED)
    reader.tags()
    return producer_id, first_offset


def _tagged_pair(data: memoryview | None, layout: struct.Struct) -> tuple[int, int] | None:
    if data is None:
        return None
    first, second = layout.unpack_from(data)
    # -1 means unknown, like a missing tag.
    return None if first == -1 and second == -1 else (first, second)


def _read_endpoints(data: memoryview | None) -> dict[int, Broker]:
    if data is None:
        return {}
    reader = Reader(data, flexible=True)
    return {broker.node_id: broker for broker in (_read_broker(reader) for _ in reader.array())}


def _read_broker(reader: Reader) -> Broker:
    node_id, host, port = reader.int32(), reader.string(), reader.int32()
    rack = reader.nullable_string()
    reader.tags()
    return Broker(node_id=node_id, host=host, port=port, rack=rack)
