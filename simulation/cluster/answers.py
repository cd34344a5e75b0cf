"""A broker's answers to every request but Fetch, as objects that the client reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace as Reply
from typing import TYPE_CHECKING, Any
from uuid import UUID

from simulation.cluster import releases
from simulation.cluster.fetching import (
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    epoch_error,
)
from simulation.cluster.image import NO_LEADER, TopicImage

if TYPE_CHECKING:
    from simulation.cluster.broker import Broker, Hosted

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LEADER_NOT_AVAILABLE = 5
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
REBOOTSTRAP_REQUIRED = 129
OFFSET_NOT_AVAILABLE = 78
_NO_ID = UUID(int=0)
_TIMESTAMP_TYPE = "message.timestamp.type"


def metadata(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers Metadata."""
    if version >= 13 and broker.cluster.sends_away(broker):
        return Reply(error_code=REBOOTSTRAP_REQUIRED, brokers=[], topics=[], cluster_id=None)
    image = broker.image
    if request.topics is None:
        topics = [_topic(broker, topic) for topic in image.topics.values()]
    else:
        topics = [_asked(broker, asked) for asked in request.topics]
    brokers = [
        Reply(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
        for one in map(broker.cluster.brokers.__getitem__, image.brokers)
    ]
    return Reply(error_code=NONE, brokers=brokers, topics=topics, cluster_id="simulated")


def _asked(broker: Broker, asked: Any) -> Reply:
    if asked.name is None:
        name = broker.name_of(asked.topic_id)
        if name is None:
            return _no_topic(None, asked.topic_id, UNKNOWN_TOPIC_ID)
    else:
        name = asked.name
    topic = broker.image.topics.get(name)
    if topic is None:
        return _no_topic(name, _NO_ID, UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(broker, topic)


def _no_topic(name: str | None, topic_id: UUID, error: int) -> Reply:
    return Reply(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=[],
        authorized_operations=None,
    )


def _topic(broker: Broker, topic: TopicImage) -> Reply:
    alive = broker.image.brokers
    partitions = []
    for index, one in enumerate(topic.partitions):
        reachable = one.leader in alive
        partitions.append(
            Reply(
                error_code=NONE if reachable else LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=one.leader if reachable else NO_LEADER,
                leader_epoch=one.epoch,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.in_sync),
            )
        )
    return Reply(
        error_code=NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=False,
        partitions=partitions,
        authorized_operations=None,
    )


def describe_topic_partitions(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers DescribeTopicPartitions: the partitions from the cursor on."""
    found = []
    for asked in request.topics:
        topic = broker.image.topics.get(asked.name)
        if topic is None:
            found.append(_no_topic(asked.name, _NO_ID, UNKNOWN_TOPIC_OR_PARTITION))
            continue
        entry = _topic(broker, topic)
        if request.cursor is not None and request.cursor.topic_name == asked.name:
            entry.partitions = entry.partitions[request.cursor.partition_index :]
        entry.partitions = entry.partitions[: request.response_partition_limit]
        found.append(entry)
    return Reply(topics=found)


def list_offsets(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers ListOffsets."""
    committed = version >= 2 and request.isolation_level == 1
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            epoch = asked.current_leader_epoch if version >= 4 else -1
            found, error = _leader(broker, topic.name, asked.partition_index, epoch)
            listed = (error, -1, -1, -1)
            if found is not None:
                listed = _listed(found, asked.timestamp, committed, version)
            code, offset, timestamp, leader_epoch = listed
            partitions.append(
                Reply(
                    partition_index=asked.partition_index,
                    error_code=code,
                    offset=offset,
                    timestamp=timestamp,
                    leader_epoch=leader_epoch if version >= 4 else -1,
                )
            )
        topics.append(Reply(name=topic.name, partitions=partitions))
    return Reply(topics=topics, throttle_time_ms=0)


def _leader(broker: Broker, name: str, index: int, epoch: int) -> tuple[Hosted | None, int]:
    found = broker.hosted.get((name, index))
    if found is None:
        known = broker.knows(name, index)
        return None, NOT_LEADER_OR_FOLLOWER if known else UNKNOWN_TOPIC_OR_PARTITION
    if error := epoch_error(found, epoch):
        return None, error
    if not found.is_leader:
        return None, NOT_LEADER_OR_FOLLOWER
    return found, NONE


def _listed(
    found: Hosted, timestamp: int, committed: bool, version: int
) -> tuple[int, int, int, int]:
    """Returns error, offset, timestamp and leader epoch."""
    log = found.log
    if timestamp == EARLIEST:
        first = log.epochs[0] if log.epochs else (-1, 0)
        return NONE, log.start, -1, first[0] if first[1] <= log.start else -1
    begin = log.epochs[-1][1] if log.epochs and log.epochs[-1][0] == found.epoch else 0
    error = NONE
    if begin > log.high_watermark:
        error = OFFSET_NOT_AVAILABLE if version >= 5 else LEADER_NOT_AVAILABLE
    end = log.last_stable if committed else log.high_watermark
    if timestamp == LATEST:
        return (error, -1, -1, -1) if error else (NONE, end, -1, found.epoch)
    at = log.newest_time() if timestamp == MAX_TIMESTAMP else log.at_time(timestamp)
    if at is not None and at[0] < end:
        return NONE, *at
    return error, -1, -1, -1


def epoch_ends(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers OffsetForLeaderEpoch."""
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            epoch = asked.current_leader_epoch if version >= 2 else -1
            found, error = _leader(broker, topic.topic, asked.partition, epoch)
            of, end = found.log.end_of_epoch(asked.leader_epoch) if found else (-1, -1)
            partitions.append(
                Reply(partition=asked.partition, error_code=error, leader_epoch=of, end_offset=end)
            )
        topics.append(Reply(topic=topic.topic, partitions=partitions))
    return Reply(topics=topics, throttle_time_ms=0)


def find_coordinator(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers FindCoordinator of one group."""
    found = broker.cluster.coordinator(request.key)
    if found is None:
        return Reply(error_code=COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1)
    return Reply(error_code=NONE, node_id=found.id, host=found.host, port=found.port)


def offset_fetch(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers OffsetFetch of one group."""
    if broker.cluster.coordinator(request.group_id) is not broker:
        return Reply(error_code=NOT_COORDINATOR, topics=[])
    commits = broker.cluster.commits.get(request.group_id, {})
    topics = []
    for topic in request.topics:
        partitions = []
        for index in topic.partition_indexes:
            offset, epoch = commits.get((topic.name, index), (-1, -1))
            partitions.append(
                Reply(
                    partition_index=index,
                    error_code=NONE,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                )
            )
        topics.append(Reply(name=topic.name, partitions=partitions))
    return Reply(error_code=NONE, topics=topics)


def offset_commit(broker: Broker, request: Any, version: int, now_ms: float) -> Reply:
    """Answers OffsetCommit."""
    error = NONE
    if broker.cluster.coordinator(request.group_id) is not broker:
        error = NOT_COORDINATOR
    commits = broker.cluster.commits.setdefault(request.group_id, {})
    topics = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            code = error
            if not code and not broker.knows(topic.name, one.partition_index):
                code = UNKNOWN_TOPIC_OR_PARTITION
            if not code:
                at = one.committed_offset, one.committed_leader_epoch
                commits[topic.name, one.partition_index] = at
            partitions.append(Reply(partition_index=one.partition_index, error_code=code))
        topics.append(Reply(name=topic.name, partitions=partitions))
    return Reply(topics=topics)


ANSWERS: Mapping[int, Callable[[Broker, Any, int, float], Reply]] = {
    releases.METADATA: metadata,
    releases.LIST_OFFSETS: list_offsets,
    releases.OFFSET_FOR_LEADER_EPOCH: epoch_ends,
    releases.FIND_COORDINATOR: find_coordinator,
    releases.OFFSET_FETCH: offset_fetch,
    releases.OFFSET_COMMIT: offset_commit,
    releases.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
