"""A little Kafka: topics, logs with leader epochs and fetch sessions, on scripted brokers.

As much of a broker's behaviour as the client can see: leaders and their hints (KIP-951), epoch
fencing and divergence (KIP-320), topic ids, log starts, sessions (KIP-227). Slow and plain.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from kafka.protocol.admin.topics import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kfetch.model import NO_TOPIC_ID, READ_COMMITTED, TopicPartition
from tests.kfetch.wire.log import Log
from tests.kfetch.wire.scripted import ScriptedBroker
from tests.kfetch.wire.sessions import Session

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER = 1, 3, 6
SESSION_NOT_FOUND, BAD_EPOCH = 70, 71
DESCRIBE_ONLY = {8}
FENCED, UNKNOWN_EPOCH, UNKNOWN_ID = 74, 75, 100

Partition = FetchResponse.FetchableTopicResponse.PartitionData


@dataclass
class Topic:
    """A topic's id and partitions."""

    topic_id: UUID
    logs: list[Log]
    internal: bool = False


class LittleKafka:
    """``nodes`` scripted brokers that share topics; ``with`` closes them."""

    def __init__(
        self, nodes: int = 1, versions: Mapping[Any, tuple[int, int]] | None = None
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.errors: dict[TopicPartition, list[int]] = defaultdict(list)
        """Errors to answer to the next fetches of a partition, before anything else."""
        self.operations: dict[str, set[int]] = {}
        """The codes of what the user may do with topics (KIP-430). Without: it is not told."""
        self.hints = True
        self.omits = False
        """Whether a reply omits the partitions behind its limit of bytes, as kfake does."""
        self.cluster_id = "little"
        self.lock = threading.RLock()
        self._ids = count(1)
        self._sessions: dict[int, dict[int, Session]] = {}
        self._session_ids = count(101)
        self.nodes = {n: ScriptedBroker(n, versions) for n in range(1, nodes + 1)}
        for node, broker in self.nodes.items():
            self._sessions[node] = {}
            broker.always(MetadataRequest, self.metadata)
            broker.always(DescribeTopicPartitionsRequest, self.describe)
            broker.always(ListOffsetsRequest, self.of_node(node, self.list_offsets))
            broker.always(OffsetForLeaderEpochRequest, self.of_node(node, self._epoch_ends))
            broker.always(FetchRequest, self.of_node(node, self.fetch))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.nodes.values())

    def create(self, name: str, partitions: int = 1, *, internal: bool = False) -> list[Log]:
        """Create a topic, or delete it and create it again; leaders go round the nodes."""
        logs = [Log(leader=1 + p % len(self.nodes)) for p in range(partitions)]
        self.topics[name] = Topic(UUID(int=next(self._ids)), logs, internal)
        return logs

    def log(self, tp: TopicPartition) -> Log:
        return self.topics[tp.topic].logs[tp.partition]

    def elect(self, tp: TopicPartition, node: int | None) -> None:
        """Give the partition another leader and the next epoch."""
        log = self.log(tp)
        log.leader, log.epoch = node, log.epoch + 1

    def isolate(self, node: int, *, without: str = "") -> None:
        """Let a node go on with the topics of now, as a broker that hears of no later change.

        ``without``: a topic that the node does not know.
        """
        topics = {n: copy.deepcopy(t) for n, t in self.topics.items() if n != without}
        broker = self.nodes[node]
        for api, answer in list(broker.handlers.items()):
            broker.always(api, partial(self.answer_with, topics, answer))

    def answer_with(self, topics: dict[str, Topic], answer: Any, request: Any) -> Any:
        with self.lock:
            now, self.topics = self.topics, topics
            try:
                return answer(request)
            finally:
                self.topics = now

    def evict(self) -> None:
        """Forget every fetch session."""
        for sessions in self._sessions.values():
            sessions.clear()

    def sessions(self, node: int = 1) -> list[Session]:
        return list(self._sessions[node].values())

    def asked(self, api: Any) -> list[Any]:
        return [request for broker in self.nodes.values() for request in broker.asked(api)]

    def __enter__(self) -> LittleKafka:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.nodes.values():
            broker.close()

    def of_node(self, node: int, handler: Any) -> Any:
        def answer(request: Any) -> Any:
            with self.lock:
                return handler(node, request)

        return answer

    def _find(self, node: int, name: str | None, index: int) -> tuple[Log | None, int]:
        topic = self.topics.get(name or "")
        if topic is None or index >= len(topic.logs):
            return None, UNKNOWN_TOPIC
        log = topic.logs[index]
        return log, 0 if log.leader == node else NOT_LEADER

    def metadata(self, request: Any) -> Any:
        with self.lock:
            version = request.API_VERSION
            names = self.topics if request.topics is None else [t.name for t in request.topics]
            return MetadataResponse(
                version=version,
                brokers=[
                    MetadataResponse.MetadataResponseBroker(
                        version=version, node_id=n, host="127.0.0.1", port=b.port, rack=b.rack
                    )
                    for n, b in self.nodes.items()
                ],
                cluster_id=self.cluster_id,
                controller_id=1,
                topics=[self.metadata_topic(name, version) for name in names],
            )

    def metadata_topic(self, name: str, version: int) -> Any:
        entry = MetadataResponse.MetadataResponseTopic
        topic = self.topics.get(name)
        if topic is None:
            return entry(version=version, error_code=UNKNOWN_TOPIC, name=name, partitions=[])
        return entry(
            version=version,
            error_code=0,
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            authorized_operations=self.operations.get(name),
            partitions=[
                entry.MetadataResponsePartition(
                    version=version,
                    error_code=0 if log.leader else 5,
                    partition_index=index,
                    leader_id=log.leader or -1,
                    leader_epoch=log.epoch,
                    replica_nodes=[],
                    isr_nodes=[],
                    offline_replicas=[],
                )
                for index, log in enumerate(topic.logs)
            ],
        )

    def describe(self, request: Any) -> Any:
        """One topic's partitions from the cursor on, as ``response_partition_limit`` allows."""
        with self.lock:
            (name,) = [topic.name for topic in request.topics]
            entry = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
            topic = self.topics.get(name)
            if topic is None:
                description = entry(error_code=UNKNOWN_TOPIC, name=name, topic_id=NO_TOPIC_ID)
            else:
                first = request.cursor.partition_index
                until = min(len(topic.logs), first + request.response_partition_limit)
                partition = entry.DescribeTopicPartitionsResponsePartition
                partitions = [
                    partition(partition_index=p, replica_nodes=[], isr_nodes=[])
                    for p in range(first, until)
                ]
                description = entry(name=name, topic_id=topic.topic_id, partitions=partitions)
            return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=[description])

    def list_offsets(self, node: int, request: Any) -> Any:
        version = request.API_VERSION
        committed = version >= 2 and request.isolation_level == READ_COMMITTED
        entry = ListOffsetsResponse.ListOffsetsTopicResponse

        def one(name: str, asked: Any) -> Any:
            log, error = self._find(node, name, asked.partition_index)
            error = error or (_epoch_error(asked, log) if log and version >= 4 else 0)
            good = log is not None and not error
            offset = _listed(log, asked.timestamp, committed) if log and good else -1
            return entry.ListOffsetsPartitionResponse(
                version=version,
                partition_index=asked.partition_index,
                error_code=error,
                offset=offset,
                leader_epoch=log.epoch if log and good else -1,
            )

        topics = [
            entry(version=version, name=t.name, partitions=[one(t.name, p) for p in t.partitions])
            for t in request.topics
        ]
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics)

    def _epoch_ends(self, node: int, request: Any) -> Any:
        version = request.API_VERSION
        entry = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult

        def one(name: str, asked: Any) -> Any:
            log, error = self._find(node, name, asked.partition)
            error = error or (_epoch_error(asked, log) if log else 0)
            epoch, end = log.epoch_end(asked.leader_epoch) if log and not error else (-1, -1)
            return entry.EpochEndOffset(
                version=version,
                error_code=error,
                partition=asked.partition,
                leader_epoch=epoch,
                end_offset=end,
            )

        topics = [
            entry(
                version=version, topic=t.topic, partitions=[one(t.topic, p) for p in t.partitions]
            )
            for t in request.topics
        ]
        return OffsetForLeaderEpochResponse(version=version, throttle_time_ms=0, topics=topics)

    def fetch(self, node: int, request: Any) -> Any:
        sessions, version = self._sessions[node], request.API_VERSION
        if request.session_epoch <= 0:
            sessions.pop(request.session_id, None)
            session = Session(next(self._session_ids), 0)
            if request.session_epoch == 0:
                sessions[session.id] = session
        else:
            known = sessions.get(request.session_id)
            if known is None or known.epoch != request.session_epoch:
                error = SESSION_NOT_FOUND if known is None else BAD_EPOCH
                return FetchResponse(version=version, error_code=error, session_id=0, responses=[])
            session = known
        full = session.epoch == 0
        session.epoch += 1
        session.update(request)
        changed = {}
        size = 0
        for key in list(session.partitions):
            if self.omits and size >= request.max_bytes:
                continue
            reply = self.fetch_one(node, key, session.partitions[key], version)
            if size >= request.max_bytes:  # the first batch is sent whatever its size (KIP-74)
                reply.records = b""
            size += len(reply.records)
            marks = reply.high_watermark, reply.log_start_offset
            has_changed = session.marks.get(key) != marks or reply.diverging_epoch is not None
            has_changed |= reply.preferred_read_replica >= 0
            if full or reply.records or reply.error_code or has_changed:
                changed[key] = reply
            session.marks[key] = (-1, -1) if reply.error_code else marks
            if reply.records:
                session.partitions[key] = session.partitions.pop(key)
        return self._fetch_reply(version, session.id if session.id in sessions else 0, changed)

    def _fetch_reply(self, version: int, session_id: int, changed: dict[Any, Any]) -> Any:
        grouped: dict[Any, list[Any]] = defaultdict(list)
        for (topic, _), reply in changed.items():
            grouped[topic].append(reply)
        led = {
            r.current_leader.leader_id for r in changed.values() if r.current_leader is not None
        } - {-1}
        entry = FetchResponse.FetchableTopicResponse
        return FetchResponse(
            version=version,
            throttle_time_ms=0,
            error_code=0,
            session_id=session_id,
            responses=[
                entry(
                    version=version,
                    topic=None if isinstance(topic, UUID) else topic,
                    topic_id=topic if isinstance(topic, UUID) else NO_TOPIC_ID,
                    partitions=replies,
                )
                for topic, replies in grouped.items()
            ],
            node_endpoints=[
                FetchResponse.NodeEndpoint(
                    version=version, node_id=n, host="127.0.0.1", port=self.nodes[n].port, rack=None
                )
                for n in sorted(led)
            ],
        )

    def fetch_one(self, node: int, key: tuple[Any, int], asked: Any, version: int) -> Any:
        topic, index = key
        name = next((n for n, t in self.topics.items() if topic in (n, t.topic_id)), None)
        reply = Partition(
            version=version,
            partition_index=index,
            error_code=0,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        log, error = self._find(node, name, index)
        if log is None or name is None:
            reply.error_code = UNKNOWN_ID if isinstance(topic, UUID) else UNKNOWN_TOPIC
            return reply
        scripted = self.errors[TopicPartition(name, index)]
        reply.error_code = scripted.pop(0) if scripted else error or _epoch_error(asked, log)
        reply.high_watermark = log.end
        reply.last_stable_offset = log.end if log.stable is None else log.stable
        reply.log_start_offset = log.start
        if reply.error_code in (NOT_LEADER, FENCED) and self.hints and version >= 16 and log.leader:
            reply.current_leader = Partition.LeaderIdAndEpoch(
                version=version, leader_id=log.leader, leader_epoch=log.epoch
            )
        if not reply.error_code:
            _read(log, asked, reply, version)
        return reply


def _listed(log: Log, timestamp: int, committed: bool) -> int:
    if timestamp >= 0:
        return log.at(timestamp)
    latest = log.stable if committed and log.stable is not None else log.end
    return log.start if timestamp == -2 else latest


def _epoch_error(asked: Any, log: Log) -> int:
    if asked.current_leader_epoch in (-1, log.epoch):
        return 0
    return FENCED if asked.current_leader_epoch < log.epoch else UNKNOWN_EPOCH


def _read(log: Log, asked: Any, reply: Any, version: int) -> None:
    if asked.last_fetched_epoch >= 0:
        epoch, end = log.epoch_end(asked.last_fetched_epoch)
        if epoch < 0:
            reply.error_code = OUT_OF_RANGE
            return
        if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
            reply.diverging_epoch = Partition.EpochEndOffset(
                version=version, epoch=epoch, end_offset=end
            )
            return
    if not log.start <= asked.fetch_offset <= log.end:
        reply.error_code = OUT_OF_RANGE
        return
    reply.records = log.read(asked.fetch_offset, asked.partition_max_bytes)
