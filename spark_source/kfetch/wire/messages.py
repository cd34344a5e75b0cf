"""The small requests to a broker: Metadata, DescribeTopicPartitions, ListOffsets,
OffsetsForLeaderEpoch.

Each is one function over an open connection, from plain values to plain values, without a retry.
It returns partition-level errors as codes, because only the caller knows what they mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch import codes
from kfetch.model import (
    NO_TOPIC_ID,
    READ_UNCOMMITTED,
    Broker,
    ClusterView,
    Leader,
    Topic,
    TopicPartition,
)
from kfetch.reactions import Api
from kfetch.wire.connection import Connection

V = TypeVar("V")

_ERROR_IN_METADATA = 13  # KIP-1102
_OPERATIONS_IN_METADATA = 8  # KIP-430
_READ = 3  # org.apache.kafka.common.acl.AclOperation
_EPOCHS_IN_METADATA = 9  # below it, a broker may send outdated epochs (KAFKA-9212)


class ListedOffset(NamedTuple):
    """A partition's answer to ListOffsets."""

    error: int
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """A partition's answer to OffsetsForLeaderEpoch: where the epoch's records end."""

    error: int
    leader_epoch: int
    """Largest epoch not above the one asked for; -1 if the broker has none."""
    end_offset: int
    """-1 if the broker knows no such epoch: it is newer than all of the broker's epochs."""


def metadata(connection: Connection, topics: Iterable[str] | None, deadline: float) -> ClusterView:
    """Returns the brokers, and the topics of these names that exist (None: all topics).

    Raises BrokerError if the broker answers for all or for a topic with any other error.
    """
    version = connection.version(MetadataRequest, lowest=4)
    reply = connection.call(_metadata_request(version, topics), deadline)
    if version >= _ERROR_IN_METADATA and reply.error_code != codes.NONE:
        raise codes.error(reply.error_code, "asking for metadata", api=Api.METADATA)
    brokers = {
        b.node_id: Broker(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
        for b in reply.brokers
    }
    existing = [
        _topic(entry, brokers, version) for entry in reply.topics if _exists(entry, connection.user)
    ]
    return ClusterView(brokers=brokers, topics={topic.name: topic for topic in existing})


def cluster_id(connection: Connection, deadline: float) -> str:
    """Returns the id of the broker's cluster; empty if it has none."""
    version = connection.version(MetadataRequest, lowest=4)
    return connection.call(_metadata_request(version, []), deadline).cluster_id or ""


def unreadable_topics(
    connection: Connection, topics: Collection[str], deadline: float
) -> list[str]:
    """Returns a sentence for each topic that the user may describe and not read (KIP-430).

    There is none if the broker is too old to tell (before Kafka 2.3).
    """
    if not topics or not connection.speaks(MetadataRequest, _OPERATIONS_IN_METADATA):
        return []
    version = connection.version(MetadataRequest, lowest=_OPERATIONS_IN_METADATA)
    request = _metadata_request(version, topics, include_topic_authorized_operations=True)
    reply = connection.call(request, deadline)
    return [
        codes.unreadable(entry.name, connection.user)
        for entry in reply.topics
        if entry.error_code == codes.NONE and _lacks_read(entry.authorized_operations)
    ]


def _lacks_read(operations: Set[int] | None) -> bool:
    """``operations``: the codes of AclOperation that the user may do; None if nobody knows."""
    return operations is not None and _READ not in operations


def may_have_changed(connection: Connection, topic: Topic, deadline: float) -> bool:
    """Returns whether a topic may have more partitions or another id, or may be gone.

    The broker lists only the partitions after the known ones (DescribeTopicPartitions with a
    cursor, KIP-966), so the reply stays small. Returns True if the broker is too old to answer.
    """
    # This import loads all messages of an administrator: 35 ms that a query's start can't spare.
    from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest as describe

    if not connection.speaks(describe, 0):
        return True
    cursor = describe.Cursor(topic_name=topic.name, partition_index=len(topic.leaders))
    names = [describe.TopicRequest(name=topic.name)]
    request = describe[0](topics=names, response_partition_limit=1, cursor=cursor)
    reply = connection.call(request, deadline)
    topics = [(entry.error_code, entry.topic_id, len(entry.partitions)) for entry in reply.topics]
    return topics != [(codes.NONE, topic.topic_id, 0)]


def _metadata_request(version: int, topics: Iterable[str] | None, **fields: bool) -> Any:
    """Returns the request about these topics; None: about all."""
    topic = partial(MetadataRequest.MetadataRequestTopic, version=version, topic_id=NO_TOPIC_ID)
    names = None if topics is None else [topic(name=name) for name in topics]
    return MetadataRequest[version](topics=names, allow_auto_topic_creation=False, **fields)


def _exists(entry: Any, user: str) -> bool:
    if entry.error_code in (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID):
        return False
    if entry.error_code != codes.NONE:
        # A retriable one too: a topic without partitions would look like a deleted one.
        action, name = f"asking for topic {entry.name}", entry.name
        raise codes.error(entry.error_code, action, api=Api.METADATA, topic=name, user=user)
    return True


def _topic(entry: Any, brokers: Mapping[int, Broker], version: int) -> Topic:
    return Topic(
        name=entry.name,
        topic_id=entry.topic_id or NO_TOPIC_ID,
        internal=entry.is_internal,
        leaders={
            p.partition_index: _leader(p, brokers, version)
            for p in sorted(entry.partitions, key=lambda p: int(p.partition_index))
        },
    )


def _leader(partition: Any, brokers: Mapping[int, Broker], version: int) -> Leader | None:
    broker = brokers.get(partition.leader_id)
    if broker is None:
        return None
    return Leader(
        broker=broker, epoch=partition.leader_epoch if version >= _EPOCHS_IN_METADATA else -1
    )


def list_offsets(
    connection: Connection,
    timestamps: Mapping[TopicPartition, int],
    leader_epochs: Mapping[TopicPartition, int],
    deadline: float,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """Returns the offset of each partition at a timestamp.

    ``timestamps``: milliseconds, or -1 for the latest offset, -2 for the earliest.
    ``leader_epochs``: the epochs of the known leaders. Another leader answers with an error.
    ``isolation_level``: under READ_COMMITTED the latest offset is the last stable offset, else the
    high watermark (KIP-98).
    """
    version = connection.version(ListOffsetsRequest, lowest=1)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            version=version,
            name=topic,
            partitions=[
                ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                    version=version,
                    partition_index=partition,
                    current_leader_epoch=leader_epochs.get(TopicPartition(topic, partition), -1),
                    timestamp=timestamp,
                )
                for partition, timestamp in partitions
            ],
        )
        for topic, partitions in by_topic(timestamps)
    ]
    timeout_ms = int(connection.request_timeout_s * 1000)
    reply = connection.call(
        ListOffsetsRequest[version](
            replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
        ),
        deadline,
    )
    return {
        TopicPartition(topic.name, p.partition_index): ListedOffset(
            p.error_code, p.offset, p.leader_epoch
        )
        for topic in reply.topics
        for p in topic.partitions
    }


def epoch_ends(
    connection: Connection,
    epochs: Mapping[TopicPartition, int],
    leader_epochs: Mapping[TopicPartition, int],
    deadline: float,
) -> dict[TopicPartition, EpochEnd] | None:
    """Returns where each partition's records of a leader epoch end (KIP-101, KIP-320).

    ``leader_epochs``: the epochs of the known leaders. Another leader answers with an error.
    None if the broker does not answer consumers (before 2.1, version 3: KAFKA-8422).
    """
    if not connection.speaks(OffsetForLeaderEpochRequest, 3):
        return None
    version = connection.version(OffsetForLeaderEpochRequest, lowest=3)
    topics = [
        OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            version=version,
            topic=topic,
            partitions=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition(
                    version=version,
                    partition=partition,
                    current_leader_epoch=leader_epochs.get(TopicPartition(topic, partition), -1),
                    leader_epoch=epoch,
                )
                for partition, epoch in partitions
            ],
        )
        for topic, partitions in by_topic(epochs)
    ]
    reply = connection.call(
        OffsetForLeaderEpochRequest[version](replica_id=-1, topics=topics), deadline
    )
    return {
        TopicPartition(topic.topic, p.partition): EpochEnd(
            p.error_code, p.leader_epoch, p.end_offset
        )
        for topic in reply.topics
        for p in topic.partitions
    }


def by_topic(values: Mapping[TopicPartition, V]) -> list[tuple[str, list[tuple[int, V]]]]:
    """Returns the values of each topic, with their partitions, as requests list them."""
    grouped: dict[str, list[tuple[int, V]]] = {}
    for tp, value in values.items():
        grouped.setdefault(tp.topic, []).append((tp.partition, value))
    return list(grouped.items())
