"""What may happen to a cluster and to the ways to it: actions, drawn ahead of time.

    actions = draw(random.Random(seed), Profile(…), seconds=60.0, topics={"a": 4}, brokers=3)
    chaos = Chaos(kernel, cluster, network, tell=story.append)
    chaos.schedule(actions)

An action is (time, kind, arguments). It draws nothing while it runs, so any one can be left out and
the others stay as they are. An action that begins something also ends it, after ``seconds``. If the
cluster has changed so that an action is impossible, it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from simulation.cluster.cluster import Cluster
from simulation.cluster.releases import RELEASES
from simulation.kernel import Kernel
from simulation.network import Network

CODECS = ("none", "gzip", "snappy raw", "lz4", "zstd")


class Action(NamedTuple):
    """Something that happens."""

    at_s: float
    """Seconds since the start of the simulation."""
    kind: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        named = " ".join(f"{name}={_text(value)}" for name, value in self.arguments.items())
        return f"{self.at_s:9.3f}  {self.kind.replace('_', ' ')} {named}"


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


WEIGHTS: Mapping[str, float] = {
    "produce": 40,
    "transaction": 2,
    "elect": 3,
    "elect_behind": 1,
    "truncate": 1,
    "expire": 2,
    "delete_records": 2,
    "roll": 2,
    "delete_topic": 0.3,
    "recreate_topic": 0.5,
    "add_partitions": 0.5,
    "reassign": 1,
    "drain": 1,
    "throttle": 1,
    "evict_sessions": 2,
    "refuse_sessions": 1,
    "restart": 1,
    "crash": 1,
    "upgrade": 0.3,
    "hang": 1,
    "slow": 1,
    "part": 1,
    "refuse_connections": 0.5,
    "cut": 2,
    "cut_replies": 2,
    "swallow_replies": 1,
    "delay_replies": 1,
    "lag": 1,
    "stick": 1,
    "send_away": 0.3,
}
"""How often each kind happens, beside the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much happens, and what."""

    actions_per_s: float = 2.0
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    longest_s: float = 10.0
    """The longest fault."""
    records_max: int = 5
    """The most records of one batch."""
    codecs: Sequence[str] = CODECS


def draw(
    chance: Random, profile: Profile, seconds: float, topics: Mapping[str, int], brokers: int
) -> list[Action]:
    """Returns actions in order of their times.

    ``topics``: names and numbers of partitions, as they are at the start.
    """
    kinds, weights = list(profile.weights), list(profile.weights.values())
    actions, at_s = [], 0.0
    while (at_s := at_s + chance.expovariate(profile.actions_per_s)) < seconds:
        (kind,) = chance.choices(kinds, weights)
        wanted = _ARGUMENTS[kind]
        drawn = {name: _DRAWN[name](chance, profile, topics, brokers) for name in wanted}
        if "partition" in drawn:
            drawn["partition"] %= topics[drawn["topic"]]
        actions.append(Action(round(at_s, 6), kind, drawn))
    return actions


_Draw = Callable[[Random, Profile, Mapping[str, int], int], Any]
_DRAWN: Mapping[str, _Draw] = {
    "topic": lambda chance, profile, topics, brokers: chance.choice(sorted(topics)),
    "partition": lambda chance, profile, topics, brokers: chance.randrange(1 << 16),
    "broker": lambda chance, profile, topics, brokers: chance.randint(1, brokers),
    "count": lambda chance, profile, topics, brokers: chance.randint(1, profile.records_max),
    "codec": lambda chance, profile, topics, brokers: chance.choice(profile.codecs),
    "seconds": lambda chance, profile, topics, brokers: profile.longest_s * chance.random() ** 2,
    "delay": lambda chance, profile, topics, brokers: 2.0 * chance.random() ** 2,
    "fraction": lambda chance, profile, topics, brokers: min(1.0, chance.random() * 1.2),
    "commits": lambda chance, profile, topics, brokers: chance.random() < 0.5,
    "release": lambda chance, profile, topics, brokers: chance.choice(sorted(RELEASES)),
}

_PLACE = ("topic", "partition")
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "produce": (*_PLACE, "count", "codec"),
    "transaction": (*_PLACE, "count", "commits", "seconds"),
    "elect": _PLACE,
    "elect_behind": (*_PLACE, "seconds"),
    "truncate": (*_PLACE, "count", "seconds"),
    "expire": (*_PLACE, "fraction"),
    "delete_records": (*_PLACE, "fraction"),
    "roll": _PLACE,
    "delete_topic": ("topic",),
    "recreate_topic": ("topic", "seconds"),
    "add_partitions": ("topic", "count"),
    "reassign": (*_PLACE, "broker"),
    "drain": ("broker",),
    "throttle": ("broker", "seconds"),
    "evict_sessions": ("broker",),
    "refuse_sessions": ("broker", "seconds"),
    "restart": ("broker", "seconds"),
    "crash": ("broker", "seconds", "delay"),
    "upgrade": ("broker", "release", "seconds"),
    "hang": ("broker", "seconds"),
    "slow": ("broker", "seconds", "delay"),
    "part": ("broker", "seconds"),
    "refuse_connections": ("broker", "seconds"),
    "cut": ("broker",),
    "cut_replies": ("broker", "count"),
    "swallow_replies": ("broker", "count"),
    "delay_replies": ("broker", "count", "delay"),
    "lag": ("broker", "seconds"),
    "stick": ("broker", "seconds"),
    "send_away": ("broker", "seconds"),
}


class Chaos:
    """Performs actions. Each kind is a method."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: Cluster,
        network: Network,
        *,
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        """``tell`` gets a line for each action that had an effect."""
        self.kernel = kernel
        self.cluster = cluster
        self.network = network
        self._tell = tell
        self._started = kernel.now
        self._values = 0
        self._producers = 0
        self._ended: dict[tuple[str, int, int], bool] = {}
        """Transactions whose markers were written, and whether they committed."""
        self.longest_s = 0.0

    def schedule(self, actions: Iterable[Action]) -> None:
        """Let each action happen at its time."""
        self._started = self.kernel.now
        for action in actions:
            self.longest_s = max(self.longest_s, action.arguments.get("seconds", 0.0))
            self.kernel.at(self._started + action.at_s, self.perform, action)

    def perform(self, action: Action) -> None:
        """Let an action happen now."""
        if (effect := getattr(self, action.kind)(**action.arguments)) is not None:
            self.tell(f"{action.kind.replace('_', ' ')}: {effect}")

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self._tell(f"{self.kernel.now - self._started:9.3f}  {line}")

    def heal(self) -> None:
        """End every fault at once: all brokers live, answer, and know the metadata."""
        for number, link in self.network.links.items():
            link.slow_s, link.refuses = 0.0, False
            link.replies_to_cut = link.replies_to_swallow = link.replies_to_delay = 0
            self.network.part(number, False)
            self.network.hang(number, False)
            broker = self.cluster.brokers[number]
            broker.throttled_until_ms = 0.0
            broker.sessions.slots = broker.slots
            self._start(number)
            self._catch_up(number)
        self.cluster.sent_away.clear()
        for name, index in sorted(self.cluster.held):
            self.cluster.follow(name, index, self._ms)
        for delay_s in (0.0, self.longest_s + 1):  # elections may still come
            self._later(delay_s, self._end_transactions)

    def _end_transactions(self) -> None:
        for name, index, producer in self.cluster.open_transactions():
            commits = self._ended.get((name, index, producer), False)
            self._end_transaction(name, index, producer, commits)

    @property
    def _ms(self) -> float:
        return self.kernel.now * 1000

    def _later(self, seconds: float, call: Callable[..., object], *arguments: object) -> None:
        self.kernel.after(seconds, call, *arguments)

    def _has(self, topic: str, partition: int) -> bool:
        found = self.cluster.image.topics.get(topic)
        return found is not None and partition < len(found.partitions)

    def _new_values(self, count: int) -> list[bytes]:
        first, self._values = self._values, self._values + count
        return [b"v%d" % number for number in range(first, first + count)]

    # -- records -----------------------------------------------------------------------------

    def produce(self, topic: str, partition: int, count: int, codec: str) -> str | None:
        """Write one batch."""
        if not self._has(topic, partition):
            return None
        values = self._new_values(count)
        time_ms = int(self.kernel.wall * 1000)
        done = self.cluster.produce(
            topic, partition, values, self._ms, time_ms=time_ms, codec=codec
        )
        return f"{values[0].decode()} +{count - 1} to {topic}-{partition}" if done else None

    def transaction(
        self, topic: str, partition: int, count: int, commits: bool, seconds: float
    ) -> str | None:
        """Write a batch in a transaction that ends later."""
        if not self._has(topic, partition):
            return None
        self._producers += 1
        producer, values = self._producers, self._new_values(count)
        time_ms = int(self.kernel.wall * 1000)
        if not self.cluster.produce(
            topic, partition, values, self._ms, time_ms=time_ms, producer=producer
        ):
            return None
        self._later(seconds, self._end_transaction, topic, partition, producer, commits)
        return f"{values[0].decode()} +{count - 1} to {topic}-{partition}, open for {seconds:.3f} s"

    def _end_transaction(self, topic: str, partition: int, producer: int, commits: bool) -> None:
        if not self._has(topic, partition):
            return
        if self.cluster.bounds(topic, partition) is None:
            self._later(0.5, self._end_transaction, topic, partition, producer, commits)
            return
        if not self.cluster.has_open(topic, partition, producer):
            return
        self.cluster.end_transaction(topic, partition, producer, self._ms, commits=commits)
        self._ended[topic, partition, producer] = commits
        # Not all replicas may have the marker yet, and then a new leader may lack it.
        self._later(15.0, self._end_transaction, topic, partition, producer, commits)
        self.tell(f"transaction {producer} of {topic}-{partition} ends: commits={commits}")

    def expire(self, topic: str, partition: int, fraction: float) -> str | None:
        """Delete whole batches from the start, as retention does."""
        return self._delete_before(topic, partition, fraction, whole=True)

    def delete_records(self, topic: str, partition: int, fraction: float) -> str | None:
        """Delete records from the start, perhaps a part of a batch."""
        return self._delete_before(topic, partition, fraction, whole=False)

    def roll(self, topic: str, partition: int) -> str | None:
        """The log begins a new segment."""
        if not self._has(topic, partition) or not self.cluster.roll(topic, partition):
            return None
        return f"{topic}-{partition}"

    def _delete_before(
        self, topic: str, partition: int, fraction: float, *, whole: bool
    ) -> str | None:
        bounds = self.cluster.bounds(topic, partition) if self._has(topic, partition) else None
        if bounds is None:
            return None
        before = bounds[0] + int((bounds[1] - bounds[0]) * fraction)
        if whole:
            before = self.cluster.batch_start(topic, partition, before)
        if before <= bounds[0]:
            return None
        self.cluster.delete_records(topic, partition, before, self._ms)
        return f"{topic}-{partition} starts at {before}"

    # -- leaders -----------------------------------------------------------------------------

    def elect(self, topic: str, partition: int) -> str | None:
        """Another replica in sync leads."""
        if not self._has(topic, partition):
            return None
        done = self.cluster.elect(topic, partition, self._ms)
        return self._leader(topic, partition) if done else None

    def elect_behind(self, topic: str, partition: int, seconds: float) -> str | None:
        """A replica leads that knows an older high watermark."""
        if not self._has(topic, partition):
            return None
        if not self.cluster.elect_behind(topic, partition, self._ms):
            return None
        self._later(seconds, lambda: self.cluster.follow(topic, partition, self._ms))
        return f"{self._leader(topic, partition)}, without followers for {seconds:.3f} s"

    def truncate(self, topic: str, partition: int, count: int, seconds: float) -> str | None:
        """A replica falls behind, and leads in the end: the last records are lost."""
        if not self._has(topic, partition):
            return None
        image = self.cluster.image.topics[topic].partitions[partition]
        others = [n for n in image.replicas if n != image.leader and self.cluster.brokers[n].alive]
        if not others or not self.cluster.set_apart(topic, partition, others[0], self._ms):
            return None
        self.produce(topic, partition, count, "none")
        topic_id = self.cluster.image.topics[topic].id
        self._later(seconds, self._lead_unclean, topic, topic_id, partition, others[0])
        return f"broker {others[0]} falls behind in {topic}-{partition}"

    def _lead_unclean(self, topic: str, topic_id: object, partition: int, number: int) -> None:
        if not self._has(topic, partition) or self.cluster.image.topics[topic].id != topic_id:
            return
        if self.cluster.elect_unclean(topic, partition, number, self._ms):
            self.tell(f"unclean election: {self._leader(topic, partition)}")
            for (name, index, producer), commits in self._ended.items():
                if (name, index) == (topic, partition):  # the log may have lost the marker
                    self._later(0.1, self._end_transaction, topic, partition, producer, commits)
        self.cluster.bring_back(topic, partition, number, self._ms)

    def reassign(self, topic: str, partition: int, broker: int) -> str | None:
        """The partition moves to other brokers."""
        if not self._has(topic, partition):
            return None
        numbers = list(self.cluster.brokers)
        first = numbers.index(broker)
        count = len(self.cluster.image.topics[topic].partitions[partition].replicas)
        replicas = [numbers[(first + n) % len(numbers)] for n in range(count)]
        done = self.cluster.reassign(topic, partition, replicas, self._ms)
        return f"{topic}-{partition} lies at {replicas}" if done else None

    def drain(self, broker: int) -> str | None:
        """Another replica leads each partition that a broker leads."""
        moved = []
        for topic in list(self.cluster.image.topics.values()):
            for index, partition in enumerate(topic.partitions):
                if partition.leader == broker and self.cluster.elect(topic.name, index, self._ms):
                    moved.append(f"{topic.name}-{index}")
        return f"broker {broker} leads no more: {' '.join(moved)}" if moved else None

    def _leader(self, topic: str, partition: int) -> str:
        image = self.cluster.image.topics[topic].partitions[partition]
        return f"broker {image.leader} leads {topic}-{partition} at epoch {image.epoch}"

    # -- topics ------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> str | None:
        """The topic is deleted."""
        if topic not in self.cluster.image.topics:
            return None
        self.cluster.delete_topic(topic, self._ms)
        return topic

    def recreate_topic(self, topic: str, seconds: float) -> str | None:
        """The topic is deleted, and created again later."""
        former = self.cluster.image.topics.get(topic)
        if former is None:
            return None
        self.cluster.delete_topic(topic, self._ms)
        replicas = len(former.partitions[0].replicas)
        self._later(seconds, self._create, topic, len(former.partitions), replicas)
        return f"{topic} is gone for {seconds:.3f} s"

    def _create(self, topic: str, partitions: int, replicas: int) -> None:
        if topic not in self.cluster.image.topics:
            self.cluster.create_topic(topic, partitions, self._ms, replicas=replicas)
            self.tell(f"topic {topic} exists again")

    def add_partitions(self, topic: str, count: int) -> str | None:
        """The topic grows."""
        if topic not in self.cluster.image.topics:
            return None
        self.cluster.add_partitions(topic, count, self._ms)
        return f"{topic} has {len(self.cluster.image.topics[topic].partitions)}"

    # -- brokers -----------------------------------------------------------------------------

    def throttle(self, broker: int, seconds: float) -> str:
        """The broker's quota is used up."""
        self.cluster.brokers[broker].throttled_until_ms = self._ms + seconds * 1000
        return f"broker {broker} for {seconds:.3f} s"

    def evict_sessions(self, broker: int) -> str | None:
        """The broker forgets every fetch session."""
        cache = self.cluster.brokers[broker].sessions
        gone = list(cache.sessions)
        for session_id in gone:
            cache.remove(session_id)
        return f"{len(gone)} at broker {broker}" if gone else None

    def refuse_sessions(self, broker: int, seconds: float) -> str:
        """The broker's cache has no room for new sessions."""
        self.cluster.brokers[broker].sessions.slots = 0
        self._later(seconds, self._allow_sessions, broker)
        return f"broker {broker} for {seconds:.3f} s"

    def _allow_sessions(self, broker: int) -> None:
        found = self.cluster.brokers[broker]
        found.sessions.slots = found.slots

    def restart(self, broker: int, seconds: float) -> str | None:
        """The broker hands over what it leads, ends, and comes back."""
        if not self.cluster.brokers[broker].alive:
            return None
        self.drain(broker)
        self._stop(broker, seconds)
        return f"broker {broker} is down for {seconds:.3f} s"

    def crash(self, broker: int, seconds: float, delay: float) -> str | None:
        """The broker is killed. The controller notices later."""
        if not self.cluster.brokers[broker].alive:
            return None
        self._stop(broker, seconds, noticed=False)
        self._later(min(delay, seconds), self._notice, broker)
        return f"broker {broker} is down for {seconds:.3f} s"

    def upgrade(self, broker: int, release: str, seconds: float) -> str | None:
        """The broker ends, and comes back as another release."""
        if not self.cluster.brokers[broker].alive:
            return None
        self.drain(broker)
        self._stop(broker, seconds, release)
        return f"broker {broker} becomes {release} in {seconds:.3f} s"

    def _stop(
        self, number: int, seconds: float, release: str = "", *, noticed: bool = True
    ) -> None:
        self.cluster.stop_broker(number, self._ms, noticed=noticed)
        self.network.stopped(number)
        self._later(seconds, self._start, number, release)

    def _notice(self, number: int) -> None:
        self.cluster.notice_stopped(number, self._ms)

    def _start(self, number: int, release: str = "") -> None:
        if not self.cluster.brokers[number].alive:
            self.cluster.start_broker(number, self._ms, RELEASES.get(release))
            self.tell(f"broker {number} is back")

    def lag(self, broker: int, seconds: float) -> str | None:
        """The broker learns nothing of the cluster."""
        if not self.cluster.brokers[broker].alive:
            return None
        self.cluster.brokers[broker].lags = True
        self._later(seconds, self._catch_up, broker)
        return f"broker {broker} for {seconds:.3f} s"

    def stick(self, broker: int, seconds: float) -> str | None:
        """The broker's replicas do not follow. Nothing new is acknowledged where it is in sync."""
        if not self.cluster.brokers[broker].alive:
            return None
        self.cluster.brokers[broker].stuck = True
        self._later(seconds, self._catch_up, broker)
        return f"broker {broker} for {seconds:.3f} s"

    def _catch_up(self, number: int) -> None:
        self.cluster.catch_up(number, self._ms)

    def send_away(self, broker: int, seconds: float) -> str:
        """The broker asks clients to start again at the bootstrap servers."""
        self.cluster.sent_away.add(broker)
        self._later(seconds, self.cluster.sent_away.discard, broker)
        return f"broker {broker} for {seconds:.3f} s"

    # -- ways to brokers ---------------------------------------------------------------------

    def hang(self, broker: int, seconds: float) -> str:
        """The broker's process stands still."""
        self.network.hang(broker, True)
        self._later(seconds, self.network.hang, broker, False)
        return f"broker {broker} for {seconds:.3f} s"

    def slow(self, broker: int, seconds: float, delay: float) -> str:
        """Each packet takes longer."""
        link = self.network.links[broker]
        link.slow_s = delay
        self._later(seconds, setattr, link, "slow_s", 0.0)
        return f"broker {broker}: {delay:.3f} s more, for {seconds:.3f} s"

    def part(self, broker: int, seconds: float) -> str:
        """No packet comes through."""
        self.network.part(broker, True)
        self._later(seconds, self.network.part, broker, False)
        return f"broker {broker} for {seconds:.3f} s"

    def refuse_connections(self, broker: int, seconds: float) -> str:
        """Nobody can connect anew."""
        link = self.network.links[broker]
        link.refuses = True
        self._later(seconds, setattr, link, "refuses", False)
        return f"broker {broker} for {seconds:.3f} s"

    def cut(self, broker: int) -> str:
        """All connections end."""
        self.network.cut(broker)
        return f"broker {broker}"

    def cut_replies(self, broker: int, count: int) -> str:
        """The next requests are handled, and their replies are lost with the connections."""
        self.network.links[broker].replies_to_cut = count
        return f"{count} of broker {broker}"

    def swallow_replies(self, broker: int, count: int) -> str:
        """The next requests are handled, and their replies never come."""
        self.network.links[broker].replies_to_swallow = count
        return f"{count} of broker {broker}"

    def delay_replies(self, broker: int, count: int, delay: float) -> str:
        """The next replies come late."""
        link = self.network.links[broker]
        link.replies_to_delay, link.delay_s = count, delay * 20
        return f"{count} of broker {broker}, by {delay * 20:.3f} s"
