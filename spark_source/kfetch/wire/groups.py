"""The committed offsets of a consumer group: FindCoordinator, OffsetFetch and OffsetCommit.

kfetch is no member of the group. It reads offsets as tools do, and commits them as a consumer that
assigns partitions by hand: with generation -1 and no member id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kfetch import codes
from kfetch.model import Broker, TopicPartition
from kfetch.offsets import Position
from kfetch.wire.cluster import Cluster
from kfetch.wire.connection import Connection
from kfetch.wire.messages import by_topic
from kfetch.wire.retry import Round

# Version 4 asks for several groups at once (KIP-699), and so does version 8 of OffsetFetch.
_ONE_GROUP = {FindCoordinatorRequest: 3, OffsetFetchRequest: 7}
_COMMIT_BY_NAME = 9  # version 10 has topic ids (KIP-848)
_GROUP_KEY = 0
_NO_COMMIT = -1
_GROUP_ID_NOT_FOUND = 69


def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition],
    deadline: float | None = None,
) -> dict[TopicPartition, Position]:
    """Returns the group's committed positions. Partitions without a commit are left out.

    An offset that a transaction has not committed yet is waited for (KIP-447). Retries as the
    cluster does. Raises ConnectionLost, or BrokerError with the group's name.
    """
    names = sorted(partitions)

    def attempt(now: Round) -> dict[TopicPartition, Position]:
        connection = _coordinator(cluster, group, now.deadline)
        return send_fetch(connection, group, names, now.deadline)

    return cluster.retries.ask(f"asking for offsets of group {group}", attempt, deadline)


def commit_offsets(
    cluster: Cluster,
    group: str,
    positions: Mapping[TopicPartition, Position],
    deadline: float | None = None,
) -> None:
    """Commit positions for the group. Retries as the cluster does.

    Raises ConnectionLost, or BrokerError with the group's name: also if the group has members,
    because then only they may commit.
    """

    def attempt(now: Round) -> None:
        send_commit(_coordinator(cluster, group, now.deadline), group, positions, now.deadline)

    cluster.retries.ask(f"committing offsets of group {group}", attempt, deadline)


def _coordinator(cluster: Cluster, group: str, deadline: float) -> Connection:
    broker = cluster.servers.ask(
        lambda connection, until: find_coordinator(connection, group, until), deadline
    )
    return cluster.connection(broker, deadline)


def find_coordinator(connection: Connection, group: str, deadline: float) -> Broker:
    """Returns the broker that keeps the group's offsets. Raises BrokerError."""
    version = connection.version(FindCoordinatorRequest, highest=_ONE_GROUP[FindCoordinatorRequest])
    request = FindCoordinatorRequest[version](key=group, key_type=_GROUP_KEY)
    reply = connection.call(request, deadline)
    _check(reply.error_code, "asking for the coordinator", group, connection)
    return Broker(node_id=reply.node_id, host=reply.host, port=reply.port)


def send_fetch(
    connection: Connection, group: str, partitions: Iterable[TopicPartition], deadline: float
) -> dict[TopicPartition, Position]:
    """Returns the committed positions of a group from its coordinator. Raises BrokerError."""
    highest = _ONE_GROUP[OffsetFetchRequest]
    version = connection.version(OffsetFetchRequest, lowest=2, highest=highest)
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(
            version=version, name=name, partition_indexes=[partition for partition, _ in of_topic]
        )
        for name, of_topic in by_topic(dict.fromkeys(partitions))
    ]
    request = OffsetFetchRequest[version](group_id=group, topics=topics, require_stable=True)
    reply = connection.call(request, deadline)
    if reply.error_code == _GROUP_ID_NOT_FOUND:
        return {}
    _check(reply.error_code, "asking for offsets", group, connection)
    positions = {}
    for topic in reply.topics:
        for p in topic.partitions:
            action = f"asking for the offset of {topic.name}-{p.partition_index}"
            _check(p.error_code, action, group, connection)
            if p.committed_offset > _NO_COMMIT:
                tp = TopicPartition(topic.name, p.partition_index)
                positions[tp] = Position(p.committed_offset, p.committed_leader_epoch)
    return positions


def send_commit(
    connection: Connection,
    group: str,
    positions: Mapping[TopicPartition, Position],
    deadline: float,
) -> None:
    """Commit positions at the group's coordinator. Raises BrokerError."""
    version = connection.version(OffsetCommitRequest, lowest=2, highest=_COMMIT_BY_NAME)
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            version=version,
            name=name,
            partitions=[_commit_entry(version, partition, at) for partition, at in of_topic],
        )
        for name, of_topic in by_topic(positions)
    ]
    request = OffsetCommitRequest[version](
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    reply = connection.call(request, deadline)
    for topic in reply.topics:
        for p in topic.partitions:
            action = f"committing {topic.name}-{p.partition_index}"
            _check(p.error_code, action, group, connection)


def _commit_entry(version: int, partition: int, position: Position) -> Any:
    return OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
        version=version,
        partition_index=partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata="",
    )


def _check(code: int, action: str, group: str, connection: Connection) -> None:
    if code != codes.NONE:
        request = f"{action} of group {group}"
        raise codes.error(code, request, group=group, user=connection.user)
