"""A real broker and its model, behind one face, so that one script can run against both.

An answer is plain values without what differs by chance: topic ids and session ids become labels,
in order of their first appearance.
"""

from __future__ import annotations

import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from random import Random
from typing import Any
from uuid import UUID

from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from integration.brokers import contract
from integration.brokers.cluster import ReleaseCluster
from integration.streams import wait_until
from kfetch.options import NetworkOptions
from kfetch.session.replies import FetchReply
from kfetch.spark.options import parse
from kfetch.wire.connection import Connection
from kfetch.wire.fetch import read_reply
from simulation.cluster import batches
from simulation.cluster.cluster import Cluster
from simulation.cluster.fetching import Fetch
from simulation.cluster.releases import RELEASES

TIME_MS = 1_700_000_000_000
_PRODUCE_VERSION = 9
_PATIENCE_S = 30.0
_NO_ID = UUID(int=0)


class Side(ABC):
    """A cluster of one kind."""

    def __init__(self) -> None:
        self._labels: dict[object, str] = {}
        self._session_ids: dict[str, int] = {}
        self._epochs: dict[int, str] = {}

    # -- what each kind does in its own way ---------------------------------------------------

    @abstractmethod
    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create a topic with the brokers of each partition. The first one leads."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the brokers know."""

    @abstractmethod
    def delete_records(self, topic: str, index: int, before: int) -> None:
        """Delete the records before an offset."""

    @abstractmethod
    def produce(
        self, topic: str, values: Sequence[bytes], index: int = 0, *, time_ms: int = TIME_MS
    ) -> None:
        """Write one batch. All replicas in sync have it afterwards."""

    @abstractmethod
    def begin(self, topic: str, values: Sequence[bytes]) -> None:
        """Write one batch to the first partition in a transaction that goes on."""

    @abstractmethod
    def end(self, topic: str, *, commits: bool) -> None:
        """End the transaction, and wait until its marker is in the log."""

    @abstractmethod
    def stop(self, broker: int) -> None:
        """End a broker's process, and wait until the others know."""

    @abstractmethod
    def start_unclean(self, topic: str, broker: int) -> None:
        """Start a broker. It leads the topic's partition though it lacks records."""

    @abstractmethod
    def start(self, broker: int) -> None:
        """Start a broker, and wait until its replicas are in sync."""

    @abstractmethod
    def wait_in_sync(self, topic: str, replicas: int) -> None:
        """Wait until so many replicas of each partition are in sync."""

    @abstractmethod
    def call(self, broker: int, request: Any) -> tuple[Any, bool]:
        """Returns a broker's reply, and whether the broker let the request wait."""

    @abstractmethod
    def newest(self, broker: int, message: Any) -> int:
        """Returns the newest version that a broker and kfetch speak."""

    @abstractmethod
    def elapse(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def fill_sessions(self, broker: int, request: Any, count: int) -> list[int]:
        """Send a request so often. Returns the session ids."""

    # -- questions ---------------------------------------------------------------------------

    def topic_id(self, topic: str, broker: int = 1) -> UUID:
        """Returns the id of a topic, with a label for its answers."""
        version = min(self.newest(broker, MetadataRequest), 12)
        entry = MetadataRequest.MetadataRequestTopic(version=version, name=topic, topic_id=_NO_ID)
        request = MetadataRequest[version](topics=[entry], allow_auto_topic_creation=False)
        (found,) = self.call(broker, request)[0].topics
        self._labels.setdefault(found.topic_id, f"{topic}#{len(self._labels)}")
        return UUID(int=found.topic_id.int)

    def fetch(
        self,
        *partitions: tuple[Any, ...],
        session: tuple[str, int] = ("", -1),
        forget: Iterable[tuple[str, UUID, int]] = (),
        broker: int = 1,
        version: int = 18,
        **limits: int,
    ) -> Any:
        """Returns a reply to Fetch.

        ``partitions``: (topic, id, partition, offset, leader epoch, epoch of the last record).
        ``session``: the label of an earlier answer, and the epoch.
        """
        version = min(version, self.newest(broker, FetchRequest))
        request = fetch_request(
            version, (self._session_ids.get(session[0], 0), session[1]), partitions, forget, limits
        )
        frame, waited = self.call(broker, request)
        return self._plain(read_reply(frame, version), waited)

    def list_offsets(self, broker: int = 1, version: int = 11, **asked: Any) -> list[Any]:
        """Returns the answer for one partition: topic, index, epoch, timestamp, isolation."""
        one = self._listed(broker, min(version, self.newest(broker, ListOffsetsRequest)), **asked)
        return [one.error_code, one.offset, one.timestamp, self.epoch(one.leader_epoch)]

    def _listed(self, broker: int, version: int, **asked: Any) -> Any:
        entry = ListOffsetsRequest.ListOffsetsTopic
        partition = entry.ListOffsetsPartition(
            version=version,
            partition_index=asked.get("index", 0),
            current_leader_epoch=asked.get("epoch", -1),
            timestamp=asked["timestamp"],
        )
        topics = [entry(version=version, name=asked["topic"], partitions=[partition])]
        isolation = asked.get("isolation", 0)
        request = ListOffsetsRequest[version](
            replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=1000
        )
        reply, _ = self.call(broker, request)
        (topic,) = reply.topics
        return topic.partitions[0]

    def epoch_end(
        self, topic: str, epoch: int, *, index: int = 0, current: int = -1, broker: int = 1
    ) -> list[int]:
        """Returns the answer to OffsetForLeaderEpoch for one partition."""
        version = min(4, self.newest(broker, OffsetForLeaderEpochRequest))
        entry = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partition = entry.OffsetForLeaderPartition(
            version=version, partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [entry(version=version, topic=topic, partitions=[partition])]
        request = OffsetForLeaderEpochRequest[version](replica_id=-1, topics=topics)
        (found,) = self.call(broker, request)[0].topics
        (one,) = found.partitions
        return [one.error_code, self.epoch(one.leader_epoch), one.end_offset]

    def metadata(self, topic: str, broker: int = 1) -> list[Any]:
        """Returns what a broker says of a topic."""
        version = min(12, self.newest(broker, MetadataRequest))
        entry = MetadataRequest.MetadataRequestTopic(version=version, name=topic, topic_id=_NO_ID)
        request = MetadataRequest[version](topics=[entry], allow_auto_topic_creation=False)
        (found,) = self.call(broker, request)[0].topics
        partitions = sorted(
            (one.partition_index, one.error_code, one.leader_id) for one in found.partitions
        )
        return [found.error_code, found.name, self._label(found.topic_id), partitions]

    def leader(self, topic: str, broker: int, index: int = 0) -> int:
        """Returns who leads a partition, as a broker says."""
        partitions = self.metadata(topic, broker)[3]
        return int(partitions[index][2]) if partitions else -1

    def current_epoch(self, topic: str, broker: int, name: str) -> int:
        """Returns the leader epoch of the first partition, and gives it a name in answers."""
        version = min(9, self.newest(broker, ListOffsetsRequest))
        reply = self._listed(broker, version, topic=topic, timestamp=-1)
        self._epochs[reply.leader_epoch] = name
        return int(reply.leader_epoch)

    def epoch(self, number: int) -> object:
        """Returns the name of a leader epoch. Releases count epochs in different steps."""
        return self._epochs.get(number, number)

    def _plain(self, reply: FetchReply, waited: bool) -> Any:
        label = ""
        if reply.session_id:
            label = next((k for k, v in self._session_ids.items() if v == reply.session_id), "")
            label = label or f"session {len(self._session_ids) + 1}"
            self._session_ids[label] = reply.session_id
        return {
            "error": reply.error,
            "session": label,
            "waited": waited,
            "brokers": sorted(reply.endpoints),
            "partitions": [
                (
                    self._label(one.key[0]),
                    one.key[1],
                    one.error,
                    one.high_watermark,
                    one.last_stable_offset,
                    one.log_start_offset,
                    one.diverging and (self.epoch(one.diverging[0]), one.diverging[1]),
                    one.leader and (one.leader[0], self.epoch(one.leader[1])),
                    len(one.aborted),
                    one.preferred_read_replica,
                    _batches(bytes(one.records)),
                )
                for one in reply.partitions
            ],
        }

    def _label(self, topic: object) -> object:
        """Returns a label for a topic's id, or its name. No id is empty."""
        if isinstance(topic, UUID):
            return self._labels.get(topic, "?") if topic.int else ""
        return topic or ""


def fetch_request(
    version: int,
    session: tuple[int, int],
    partitions: Iterable[tuple[Any, ...]],
    forget: Iterable[tuple[str, UUID, int]],
    limits: dict[str, int],
) -> Any:
    """Returns a Fetch request."""
    wanted, forgotten = FetchRequest.FetchTopic, FetchRequest.ForgottenTopic
    topics = [
        wanted(
            version=version,
            topic=topic,
            topic_id=topic_id,
            partitions=[
                wanted.FetchPartition(
                    version=version,
                    partition=index,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=last,
                    log_start_offset=-1,
                    partition_max_bytes=limits.get("partition_bytes", 1 << 20),
                )
            ],
        )
        for topic, topic_id, index, offset, epoch, last in map(_complete, partitions)
    ]
    return FetchRequest[version](
        replica_id=-1,
        max_wait_ms=limits.get("wait_ms", 0),
        min_bytes=limits.get("min_bytes", 1),
        max_bytes=limits.get("bytes", 1 << 20),
        isolation_level=limits.get("isolation", 0),
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[
            forgotten(version=version, topic=topic, topic_id=topic_id, partitions=[index])
            for topic, topic_id, index in forget
        ],
        rack_id="",
    )


def _complete(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*partition, *(-1,) * (6 - len(partition)))


def _batches(data: bytes) -> list[tuple[int, int]]:
    """Returns base offset and size of each batch. A part of one counts as -1."""
    found, at = [], 0
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at) if len(data) - at >= 12 else (-1, 0)
        whole = base >= 0 and at + 12 + length <= len(data)
        found.append((base, 12 + length) if whole else (-1, len(data) - at))
        at += 12 + length if whole else len(data)
    return found


class RealSide(Side):
    """A cluster of real brokers."""

    def __init__(self, cluster: ReleaseCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._options: NetworkOptions = parse(
            {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
        ).network
        self._connections: dict[int, Connection] = {}
        self._producer: Producer

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        assignments = {index: list(numbers) for index, numbers in enumerate(replicas)}
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        with self._admin() as admin:
            admin.create_topics({topic: {"assignments": assignments, "configs": configs}})
        contract.wait_known(self._cluster, topic)
        for index, numbers in assignments.items():
            self._wait_leads(topic, index, numbers[0])

    def begin(self, topic: str, values: Sequence[bytes]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "transactional.id": f"{topic}-{len(self._labels)}-{time.monotonic_ns()}",
                "linger.ms": 50,
            }
        )
        self._producer.init_transactions(_PATIENCE_S)
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value, partition=0, timestamp=TIME_MS)
        assert 0 == self._producer.flush(_PATIENCE_S)

    def end(self, topic: str, *, commits: bool) -> None:
        end = self._producer.commit_transaction if commits else self._producer.abort_transaction
        end(_PATIENCE_S)

        def ended() -> bool:
            stable, high = (
                self.list_offsets(topic=topic, timestamp=-1, isolation=isolation)[1]
                for isolation in (1, 0)
            )
            return bool(stable == high)

        wait_until(ended, what="the marker of a transaction")

    def _wait_leads(self, topic: str, index: int, broker: int) -> None:
        """Wait until a broker leads: its metadata names a topic before it has the replica."""

        def leads() -> bool:
            asked = {"topic": topic, "index": index, "timestamp": -1}
            return bool(self.list_offsets(broker, **asked)[0] == 0)

        wait_until(leads, what=f"the leader of {topic}-{index}")

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])
        known = lambda: contract.known_topics(self._cluster)  # noqa: E731
        wait_until(lambda: all(topic not in names for names in known()), what="its end")

    def delete_records(self, topic: str, index: int, before: int) -> None:
        with self._admin() as admin:
            admin.delete_records({TopicPartition(topic, index): before})

    def produce(
        self, topic: str, values: Sequence[bytes], index: int = 0, *, time_ms: int = TIME_MS
    ) -> None:
        data = ProduceRequest.TopicProduceData
        entry = data.PartitionProduceData(
            version=_PRODUCE_VERSION,
            index=index,
            records=batches.records(0, -1, time_ms, values).data,
        )
        topics = [data(version=_PRODUCE_VERSION, name=topic, partition_data=[entry])]
        request = ProduceRequest[_PRODUCE_VERSION](
            transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics
        )

        def written() -> bool:
            leader = self.leader(topic, self._living(), index)
            if leader < 0:
                return False
            (found,) = self.call(leader, request)[0].responses
            return bool(found.partition_responses[0].error_code == 0)

        wait_until(written, what="an acknowledged batch")

    def stop(self, broker: int) -> None:
        self._cluster.node(broker).kill()
        self._connections.pop(broker).close()
        others = [node for node in self._cluster.nodes if node.running]
        number = others[0].node_id if others else broker
        wait_until(lambda: not others or self._is_gone(broker, number), what="the end of a broker")

    def _is_gone(self, broker: int, asked: int) -> bool:
        request = MetadataRequest[9](topics=None, allow_auto_topic_creation=False)
        reply, _ = self.call(asked, request)
        return all(
            broker not in one.isr_nodes or one.isr_nodes == [broker]
            for topic in reply.topics
            for one in topic.partitions
        ) and broker not in [one.node_id for one in reply.brokers]

    def start(self, broker: int) -> None:
        self._cluster.node(broker).start()

    def start_unclean(self, topic: str, broker: int) -> None:
        self._cluster.node(broker).start()
        wait_until(lambda: self.leader(topic, broker) == broker, what="the election")

    def wait_in_sync(self, topic: str, replicas: int) -> None:
        contract.wait_in_sync(self._cluster, topic, replicas=replicas)

    def call(self, broker: int, request: Any) -> tuple[Any, bool]:
        connection = self._connection(broker)
        began = time.monotonic()
        if request.API_KEY == FetchRequest.API_KEY:
            connection.send(request)
            _, frame = connection.receive(began + _PATIENCE_S)
            wait_s = request.max_wait_ms / 1000
            return frame, wait_s > 0 and time.monotonic() - began >= wait_s
        return connection.call(request, began + _PATIENCE_S), False

    def newest(self, broker: int, message: Any) -> int:
        return self._connection(broker).version(message)

    def versions(self, broker: int) -> dict[int, tuple[int, int]]:
        """Returns the versions of requests that a broker speaks, by key."""
        return self._connection(broker)._versions

    def elapse(self, seconds: float) -> None:
        time.sleep(seconds)

    def fill_sessions(self, broker: int, request: Any, count: int) -> list[int]:
        return [
            read_reply(self.call(broker, request)[0], request.API_VERSION).session_id
            for _ in range(count)
        ]

    def _connection(self, broker: int) -> Connection:
        found = self._connections.get(broker)
        if found is None or not found.alive:
            host, port = self._cluster.node(broker).address.split(":")
            deadline = time.monotonic() + _PATIENCE_S
            found = Connection.open(host, int(port), self._options, deadline)
            self._connections[broker] = found
        return found

    def _living(self) -> int:
        return next(node.node_id for node in self._cluster.nodes if node.running)

    def _admin(self) -> Any:
        servers = [node.address for node in self._cluster.nodes if node.running]
        return closing(KafkaAdminClient(bootstrap_servers=servers))


class ModelSide(Side):
    """The model of the same release."""

    def __init__(self, release: str, brokers: int, *, slots: int = 1000) -> None:
        super().__init__()
        self._cluster = Cluster(brokers, Random(1), release=RELEASES[release], slots=slots)
        self._now_ms = time.time() * 1000
        self._transactions = 0

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        self._cluster.create_topic(topic, len(replicas), self._now_ms, placed=replicas)

    def delete(self, topic: str) -> None:
        self._cluster.delete_topic(topic, self._now_ms)

    def delete_records(self, topic: str, index: int, before: int) -> None:
        self._cluster.delete_records(topic, index, before, self._now_ms)

    def produce(
        self, topic: str, values: Sequence[bytes], index: int = 0, *, time_ms: int = TIME_MS
    ) -> None:
        assert self._cluster.produce(topic, index, values, self._now_ms, time_ms=time_ms)

    def begin(self, topic: str, values: Sequence[bytes]) -> None:
        self._transactions += 1
        assert self._cluster.produce(
            topic, 0, values, self._now_ms, time_ms=TIME_MS, producer=self._transactions
        )

    def end(self, topic: str, *, commits: bool) -> None:
        assert self._cluster.end_transaction(
            topic, 0, self._transactions, self._now_ms, commits=commits
        )

    def stop(self, broker: int) -> None:
        self._cluster.stop_broker(broker, self._now_ms)

    def start(self, broker: int) -> None:
        self._cluster.start_broker(broker, self._now_ms)

    def start_unclean(self, topic: str, broker: int) -> None:
        self.start(broker)
        assert self._cluster.elect_unclean(topic, 0, broker, self._now_ms)

    def wait_in_sync(self, topic: str, replicas: int) -> None:
        partitions = self._cluster.image.topics[topic].partitions
        assert all(len(one.in_sync) == replicas for one in partitions)

    def call(self, broker: int, request: Any) -> tuple[Any, bool]:
        reply = self._cluster.brokers[broker].handle(request, self._now_ms)
        if not isinstance(reply, Fetch):
            return (memoryview(reply) if isinstance(reply, bytes) else reply), False
        late: list[bytes] = []
        reply.on_reply = late.append
        self._now_ms = reply.until_ms
        reply.broker.end_wait(reply, self._now_ms)
        return memoryview(late[0]), True

    def newest(self, broker: int, message: Any) -> int:
        newest = self._cluster.brokers[broker].versions[message.API_KEY][1]
        return min(newest, int(message.max_version))

    def elapse(self, seconds: float) -> None:
        self._now_ms += seconds * 1000

    def fill_sessions(self, broker: int, request: Any, count: int) -> list[int]:
        return [
            read_reply(self.call(broker, request)[0], request.API_VERSION).session_id
            for _ in range(count)
        ]


Script = Callable[[Side], list[Any]]
