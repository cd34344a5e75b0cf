"""One simulated broker: its metadata, its replicas, its fetch sessions, and what it answers.

It is a pure model: time and chance are arguments. ``handle`` takes a request of kafka-python, and
returns a frame for Fetch, or an object with the attributes of kafka-python's response.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from simulation.cluster import answers
from simulation.cluster.fetching import Fetch
from simulation.cluster.image import Image, PartitionImage
from simulation.cluster.log import Log
from simulation.cluster.releases import FETCH, Release
from simulation.cluster.sessions import Cache

if TYPE_CHECKING:
    from simulation.cluster.cluster import Cluster

UNSUPPORTED_VERSION = 35


class Hosted:
    """A replica at a broker, and the part that the broker plays for it."""

    __slots__ = ("epoch", "index", "is_leader", "log", "name", "topic_id", "watchers")

    def __init__(self, topic_id: UUID, name: str, index: int) -> None:
        self.topic_id = topic_id
        self.name = name
        self.index = index
        self.log = Log()
        self.epoch = -1
        """The leader epoch that the broker knows."""
        self.is_leader = False
        self.watchers: dict[Fetch, None] = {}
        """The long polls that wait for it."""


class Broker:
    """A broker: alive or not, with its own view of the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        release: Release,
        *,
        rack: str | None = None,
        slots: int = 1000,
        chance: Random,
    ) -> None:
        self.cluster = cluster
        self.id = node_id
        self.host = f"broker-{node_id}"
        self.port = 9092
        self.rack = rack
        self.release = release
        self.slots = slots
        self.chance = chance
        self.alive = True
        self.lags = False
        """Whether it does not learn of changes: its metadata and its leaderships grow old."""
        self.stuck = False
        """Whether its replicas do not follow their leaders."""
        self.image = Image()
        self.hosted: dict[tuple[str, int], Hosted] = {}
        self.throttled_until_ms = 0.0
        self.sessions = Cache(slots, release.session_shards, chance)
        self.starts = 1
        """How often the process has started."""

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """Returns the versions of requests that it speaks, by key."""
        return dict(self.release.apis)

    # -- requests ----------------------------------------------------------------------------

    def handle(self, request: Any, now_ms: float) -> Any:
        """Returns the reply, or a ``Fetch`` that waits: its ``on_reply`` gets the reply later."""
        if request.API_KEY == FETCH:
            fetch = Fetch(self, request, request.API_VERSION, now_ms)
            reply = fetch.first_reply(now_ms)
            return fetch if reply is None else reply
        return answers.ANSWERS[request.API_KEY](self, request, request.API_VERSION, now_ms)

    def end_wait(self, fetch: Fetch, now_ms: float) -> None:
        """The time of a long poll is over."""
        if not fetch.done:
            reply = fetch.late_reply(now_ms)
            if fetch.on_reply is not None:
                fetch.on_reply(reply)

    def look_again(self, hosted: Hosted, now_ms: float) -> None:
        """Something changed at a replica: long polls may be due."""
        for fetch in list(hosted.watchers):
            if not fetch.done and fetch.is_due():
                self.end_wait(fetch, now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """Returns for how long a client is to leave it alone."""
        return max(0, int(self.throttled_until_ms - now_ms))

    # -- metadata ----------------------------------------------------------------------------

    def name_of(self, topic_id: UUID | None) -> str | None:
        """Returns the name of a topic id in the broker's metadata."""
        return self.image.names.get(topic_id)

    def knows(self, name: str, index: int) -> bool:
        """Returns whether the broker's metadata has a partition."""
        topic = self.image.topics.get(name)
        return topic is not None and index < len(topic.partitions)

    def leader_of(self, name: str | None, index: int) -> tuple[int, int]:
        """Returns leader and epoch of a partition by the broker's metadata; -1 if unknown."""
        topic = self.image.topics.get(name or "")
        if topic is None or index >= len(topic.partitions):
            return -1, -1
        partition = topic.partitions[index]
        return partition.leader, partition.epoch

    def learn(self, image: Image, now_ms: float) -> None:
        """Take newer metadata: begin and end to lead, drop the replicas of deleted topics."""
        former, self.image = self.image, image
        for name, topic in former.topics.items():
            new = image.topics.get(name)
            if new is None or new.id != topic.id:
                self._drop(name, len(topic.partitions), now_ms)
        for name, topic in image.topics.items():
            if former.topics.get(name) is not topic:
                for index, partition in enumerate(topic.partitions):
                    self._play(topic.id, name, index, partition, now_ms)

    def _drop(self, name: str, partitions: int, now_ms: float) -> None:
        for index in range(partitions):
            if (hosted := self.hosted.pop((name, index), None)) is not None:
                self.look_again(hosted, now_ms)

    def _play(
        self, topic_id: UUID, name: str, index: int, partition: PartitionImage, now_ms: float
    ) -> None:
        key = (name, index)
        hosted = self.hosted.get(key)
        if self.id not in partition.replicas:
            if hosted is not None:
                del self.hosted[key]
                self.look_again(hosted, now_ms)
            return
        if hosted is None:
            hosted = self.hosted[key] = Hosted(topic_id, name, index)
        leads = partition.leader == self.id
        if partition.epoch == hosted.epoch and leads == hosted.is_leader:
            return
        if leads and partition.epoch > hosted.epoch:
            hosted.log.begin_epoch(partition.epoch)
        hosted.epoch, hosted.is_leader = partition.epoch, leads
        self.look_again(hosted, now_ms)

    # -- life --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the process. Its sessions and long polls are gone; its logs stay."""
        self.alive = False
        for hosted in self.hosted.values():
            for fetch in hosted.watchers:
                fetch.done = True
            hosted.watchers.clear()
            hosted.is_leader = False

    def start(self, release: Release | None = None) -> None:
        """Begin again with an empty cache of sessions, perhaps as another release."""
        self.release = release or self.release
        self.sessions = Cache(self.slots, self.release.session_shards, self.chance)
        self.alive = True
        self.lags = self.stuck = False
        self.starts += 1

    def __repr__(self) -> str:
        return f"broker {self.id}"
