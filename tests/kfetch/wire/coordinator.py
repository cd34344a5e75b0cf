"""Consumer groups for ``little``: one node is the coordinator, and keeps committed offsets."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from kfetch.model import TopicPartition
from kfetch.offsets import Position
from tests.kfetch.wire.little import LittleKafka

NOT_COORDINATOR = 16


class Coordinator:
    """Answers for all groups of a little Kafka. ``node``: the coordinator's id."""

    def __init__(self, kafka: LittleKafka, node: int = 1) -> None:
        self.node = node
        self.error = 0
        """The error of every answer about offsets."""
        self.error_of_finding = 0
        """The error of every answer about the coordinator."""
        self.error_of_topic: dict[str, int] = {}
        """The errors of commits for these topics."""
        self.offsets: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
        self.kafka = kafka
        for node_id, broker in kafka.nodes.items():
            broker.always(FindCoordinatorRequest, self._find)
            broker.always(OffsetFetchRequest, partial(self.fetch, node_id))
            broker.always(OffsetCommitRequest, partial(self._commit, node_id))

    def _find(self, request: Any) -> Any:
        address = self.kafka.nodes[self.node].broker
        return FindCoordinatorResponse(
            version=request.API_VERSION,
            error_code=self.error_of_finding,
            error_message=None,
            node_id=address.node_id,
            host=address.host,
            port=address.port,
        )

    def _error(self, node: int) -> int:
        return self.error or (0 if node == self.node else NOT_COORDINATOR)

    def fetch(self, node: int, request: Any) -> Any:
        version, error = request.API_VERSION, self._error(node)
        entry = OffsetFetchResponse.OffsetFetchResponseTopic
        group = self.offsets[request.group_id]

        def one(name: str, index: int) -> Any:
            at = group.get(TopicPartition(name, index), Position(-1))
            return entry.OffsetFetchResponsePartition(
                version=version,
                partition_index=index,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                metadata="",
                error_code=0,
            )

        topics = [
            entry(
                version=version,
                name=t.name,
                partitions=[one(t.name, p) for p in t.partition_indexes],
            )
            for t in request.topics
        ]
        return OffsetFetchResponse(
            version=version, error_code=error, topics=[] if error else topics
        )

    def _commit(self, node: int, request: Any) -> Any:
        version, common = request.API_VERSION, self._error(node)
        entry = OffsetCommitResponse.OffsetCommitResponseTopic

        def one(name: str, asked: Any) -> Any:
            error = common or self.error_of_topic.get(name, 0)
            if not error:
                tp = TopicPartition(name, asked.partition_index)
                self.offsets[request.group_id][tp] = Position(
                    asked.committed_offset, asked.committed_leader_epoch
                )
            return entry.OffsetCommitResponsePartition(
                version=version, partition_index=asked.partition_index, error_code=error
            )

        topics = [
            entry(version=version, name=t.name, partitions=[one(t.name, p) for p in t.partitions])
            for t in request.topics
        ]
        return OffsetCommitResponse(version=version, topics=topics)
