"""A simulated Kafka cluster: topics, elections, replication, retention, and who is told of it.

The controller's metadata reaches each broker at once, or later if a broker lags. A record counts as
acknowledged once all replicas in sync have it. Time is an argument; chance is a ``Random``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple
from uuid import UUID

from simulation.cluster import batches
from simulation.cluster.broker import Broker, Hosted
from simulation.cluster.image import NO_LEADER, Image, PartitionImage, TopicImage
from simulation.cluster.log import Batch
from simulation.cluster.releases import KAFKA_4_3, Release

Place = tuple[str, int]
"""Name and partition."""
Records = list[tuple[int, bytes]]
"""Offsets and values."""


class Listener:
    """What a cluster tells of its records. Each method may be overridden."""

    def acknowledged(
        self, topic_id: UUID, place: Place, base: int, values: Sequence[bytes]
    ) -> None:
        """A producer was told that Kafka has these records from an offset on."""

    def lost(self, topic_id: UUID, place: Place, records: Records, kept: int) -> None:
        """A leader was elected without these records. Its log ends at ``kept``, and grows again."""

    def expired(self, topic_id: UUID, place: Place, records: Records, start: int) -> None:
        """These records were deleted: the log starts at an offset now."""

    def deleted(self, topic_id: UUID, place: Place, records: Records) -> None:
        """A partition was deleted with its topic."""


class _Unacknowledged(NamedTuple):
    end: int
    base: int
    values: Sequence[bytes]
    batch: Batch


class Cluster:
    """Brokers and topics. Every method that changes something takes the time in milliseconds."""

    def __init__(
        self,
        brokers: int,
        chance: Random,
        *,
        release: Release = KAFKA_4_3,
        racks: Sequence[str | None] = (),
        slots: int = 1000,
        near_replicas: bool = False,
        listener: Listener | None = None,
    ) -> None:
        """``slots``: for fetch sessions at each broker. ``near_replicas``: KIP-392."""
        self.chance = chance
        self.near_replicas = near_replicas
        self.listener = listener or Listener()
        self.image = Image(brokers=tuple(range(1, brokers + 1)))
        self.commits: dict[str, dict[Place, tuple[int, int]]] = {}
        self.brokers = {
            number: Broker(
                self,
                number,
                release,
                rack=racks[(number - 1) % len(racks)] if racks else None,
                slots=slots,
                chance=chance,
            )
            for number in self.image.brokers
        }
        self.sent_away: set[int] = set()
        """Brokers that ask their clients to start again at the bootstrap servers."""
        self.apart: set[tuple[int, str, int]] = set()
        """Followers that do not follow: the broker's number, name and partition."""
        self.held: set[Place] = set()
        """Partitions whose followers do not follow yet, after an election."""
        self._acknowledged_end: dict[tuple[UUID, int], int] = {}
        """Up to where the records of a partition are acknowledged. A new leader's own high
        watermark may be older."""
        self._waiting: dict[Place, list[_Unacknowledged]] = {}
        self._publish((), 0.0)

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """The addresses of all brokers."""
        return [(broker.host, broker.port) for broker in self.brokers.values()]

    # -- topics ------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        now_ms: float,
        *,
        replicas: int = 2,
        placed: Sequence[Sequence[int]] = (),
        append_time: bool = False,
    ) -> UUID:
        """Create a topic. Returns its id.

        ``placed``: the brokers of each partition, in place of ``replicas``. The first one leads.
        """
        topic_id = UUID(int=self.chance.getrandbits(128), version=4)
        made = tuple(self._new_partition(index, replicas) for index in range(partitions))
        if placed:
            made = tuple(PartitionImage(one[0], 0, tuple(one), tuple(one)) for one in placed)
        self._change(TopicImage(name, topic_id, made, append_time), now_ms)
        return topic_id

    def add_partitions(self, name: str, count: int, now_ms: float) -> None:
        """Give a topic more partitions."""
        topic = self.image.topics[name]
        replicas = len(topic.partitions[0].replicas)
        first = len(topic.partitions)
        new = tuple(self._new_partition(first + n, replicas) for n in range(count))
        self._change(replace(topic, partitions=topic.partitions + new), now_ms)

    def delete_topic(self, name: str, now_ms: float) -> None:
        """Delete a topic and its records."""
        topic = self.image.topics[name]
        for index in range(len(topic.partitions)):
            self._waiting.pop((name, index), None)
            self.held.discard((name, index))
            if (hosted := self._last_leader((name, index))) is not None:
                records = hosted.log.records(self._acknowledged_end.get((topic.id, index), 0))
                self.listener.deleted(topic.id, (name, index), records)
        self.apart = {one for one in self.apart if one[1] != name}
        topics = {key: one for key, one in self.image.topics.items() if key != name}
        self._set(topics, self.image.brokers)
        self._publish((), now_ms)

    def recreate_topic(self, name: str, now_ms: float) -> UUID:
        """Delete a topic and create it again with as many partitions."""
        topic = self.image.topics[name]
        self.delete_topic(name, now_ms)
        replicas = len(topic.partitions[0].replicas)
        return self.create_topic(name, len(topic.partitions), now_ms, replicas=replicas)

    def _new_partition(self, index: int, replicas: int) -> PartitionImage:
        alive = [number for number in self.brokers if self.brokers[number].alive]
        alive = alive or list(self.brokers)
        chosen = tuple(alive[(index + n) % len(alive)] for n in range(min(replicas, len(alive))))
        return PartitionImage(chosen[0], 0, chosen, chosen)

    # -- records -----------------------------------------------------------------------------

    def produce(
        self,
        name: str,
        index: int,
        values: Sequence[bytes],
        now_ms: float,
        *,
        time_ms: int | None = None,
        codec: str = "none",
        producer: int = -1,
    ) -> bool:
        """Append a batch at the leader. Returns whether there is one.

        ``producer``: the transaction that the records belong to.
        """
        hosted = self._leading((name, index))
        if hosted is None:
            return False
        append_time = self.image.topics[name].append_time
        at_ms = int(now_ms) if time_ms is None or append_time else time_ms
        batch = batches.records(
            hosted.log.end,
            hosted.epoch,
            at_ms,
            values,
            codec=codec,
            producer=producer,
            append_time=append_time,
        )
        self._append((name, index), hosted, batch, now_ms)
        return True

    def end_transaction(
        self, name: str, index: int, producer: int, now_ms: float, *, commits: bool
    ) -> bool:
        """Write the marker of a transaction's end. Returns whether there is a leader."""
        hosted = self._leading((name, index))
        if hosted is None:
            return False
        batch = batches.marker(hosted.log.end, hosted.epoch, int(now_ms), producer, commits=commits)
        self._append((name, index), hosted, batch, now_ms)
        return True

    def delete_records(self, name: str, index: int, before: int, now_ms: float) -> None:
        """Delete the records before an offset at every replica: retention, or DeleteRecords."""
        hosted = self._leading((name, index))
        if hosted is None:
            return
        before = min(before, hosted.log.high_watermark)
        if before > hosted.log.start:
            gone = hosted.log.records(before)
            for replica in self._replicas_of((name, index)):
                replica.log.move_start(min(before, replica.log.end))
            self.listener.expired(hosted.topic_id, (name, index), gone, before)
            self._replicate((name, index), now_ms)

    def roll(self, name: str, index: int) -> bool:
        """Begin a new segment at every replica. Returns whether there is a leader."""
        if self._leading((name, index)) is None:
            return False
        for replica in self._replicas_of((name, index)):
            replica.log.roll()
        return True

    def surviving(self, name: str, index: int) -> list[tuple[int, bytes]]:
        """Returns the records that a reader gets who starts now, with their offsets."""
        hosted = self._leading((name, index)) or self._last_leader((name, index))
        return hosted.log.records(hosted.log.last_stable) if hosted else []

    def leaders(self) -> list[tuple[Place, Hosted]]:
        """Returns each partition that has a leader, with the leader's replica."""
        return [(place, hosted) for place in self._places() if (hosted := self._leading(place))]

    def bounds(self, name: str, index: int) -> tuple[int, int] | None:
        """Returns a log's start and high watermark; None without a leader."""
        hosted = self._leading((name, index))
        return None if hosted is None else (hosted.log.start, hosted.log.high_watermark)

    def batch_start(self, name: str, index: int, offset: int) -> int:
        """Returns the first offset of the batch that has an offset, or the offset itself."""
        hosted = self._leading((name, index))
        if hosted is None:
            return offset
        at = hosted.log.first_at(offset)
        return hosted.log.bases[at] if at < len(hosted.log.bases) else offset

    def has_open(self, name: str, index: int, producer: int) -> bool:
        """Returns whether a transaction runs in a partition, as its leader knows it."""
        hosted = self._leading((name, index))
        return hosted is not None and producer in hosted.log.open

    def open_transactions(self) -> list[tuple[str, int, int]]:
        """Returns name, partition and producer of the transactions that run."""
        found = self.leaders()
        return [(*place, producer) for place, hosted in found for producer in hosted.log.open]

    def _append(self, place: Place, hosted: Hosted, batch: Batch, now_ms: float) -> None:
        hosted.log.append(batch)
        entry = _Unacknowledged(batch.last + 1, batch.base, batch.values, batch)
        self._waiting.setdefault(place, []).append(entry)
        self._replicate(place, now_ms)

    def _leading(self, place: Place) -> Hosted | None:
        topic = self.image.topics.get(place[0])
        if topic is None:
            return None
        partition = topic.partitions[place[1]]
        broker = self.brokers.get(partition.leader)
        if broker is None or not broker.alive:
            return None
        hosted = broker.hosted.get(place)
        if hosted is None or not hosted.is_leader or hosted.topic_id != topic.id:
            return None
        return hosted

    def _last_leader(self, place: Place) -> Hosted | None:
        found = self._replicas_of(place)
        return max(found, key=lambda one: (one.log.latest_epoch(), one.log.end), default=None)

    def _replicas_of(self, place: Place) -> list[Hosted]:
        topic = self.image.topics.get(place[0])
        if topic is None:
            return []
        numbers = topic.partitions[place[1]].replicas
        found = [self.brokers[number].hosted.get(place) for number in numbers]
        return [one for one in found if one is not None and one.topic_id == topic.id]

    # -- replication -------------------------------------------------------------------------

    def _replicate(self, place: Place, now_ms: float) -> None:
        """Let the followers of a partition follow, and the high watermark rise."""
        leading = self._leading(place)
        if leading is None or place in self.held:
            return
        log = leading.log
        partition = self.image.topics[place[0]].partitions[place[1]]
        in_sync_end = log.end
        followers = []
        for number in partition.replicas:
            if number == partition.leader:
                continue
            hosted = self._follower(number, place, leading)
            if hosted is not None and self._follows(number, place, leading):
                _follow(hosted, leading)
                followers.append((number, hosted))
            elif number in partition.in_sync:  # it may have others at the same offsets
                in_sync_end = min(in_sync_end, _common_end(hosted, leading) if hosted else 0)
        log.high_watermark = max(log.high_watermark, in_sync_end)
        if place in self._waiting:
            self._acknowledge(place, leading)
        for _, hosted in followers:
            known = min(log.high_watermark, hosted.log.end)
            hosted.log.high_watermark = max(hosted.log.high_watermark, known)
        for number, hosted in [*followers, (partition.leader, leading)]:
            if hosted.watchers:
                self.brokers[number].look_again(hosted, now_ms)

    def _follower(self, number: int, place: Place, leading: Hosted) -> Hosted | None:
        """Returns a broker's replica of the same topic, if it has one."""
        hosted = self.brokers[number].hosted.get(place)
        return hosted if hosted is not None and hosted.topic_id == leading.topic_id else None

    def _follows(self, number: int, place: Place, leading: Hosted) -> bool:
        broker, hosted = self.brokers[number], self._follower(number, place, leading)
        return (
            hosted is not None
            and broker.alive
            and not broker.stuck
            and (number, *place) not in self.apart
            and hosted.epoch == leading.epoch
        )

    def _acknowledge(self, place: Place, leading: Hosted) -> None:
        """Tell of the records that all replicas in sync have.

        A batch that the leader lacks was never acknowledged, and is no longer waited for.
        """
        high_watermark, left = leading.log.high_watermark, []
        for entry in self._waiting.pop(place):
            if not leading.log.has(entry.batch):
                continue
            if entry.end > high_watermark:
                left.append(entry)
                continue
            self._acknowledged_end[leading.topic_id, leading.index] = entry.end
            if entry.values:
                self.listener.acknowledged(leading.topic_id, place, entry.base, entry.values)
        if left:
            self._waiting[place] = left

    # -- elections ---------------------------------------------------------------------------

    def elect(self, name: str, index: int, now_ms: float, *, leader: int | None = None) -> bool:
        """Elect a leader out of the replicas in sync that live. Returns whether there is one."""
        partition = self.image.topics[name].partitions[index]
        living = [n for n in partition.in_sync if self.brokers[n].alive]
        if leader is None:
            leader = next((n for n in living if n != partition.leader), None)
            leader = partition.leader if leader is None and partition.leader in living else leader
        if leader not in living:
            return False
        self._lead(name, index, leader, partition.in_sync, now_ms)
        return True

    def elect_unclean(self, name: str, index: int, leader: int, now_ms: float) -> bool:
        """Elect a living replica that lacks records. They are lost.

        Returns False for a replica that has records of its own, which an earlier election lost:
        they would come back.
        """
        place, partition = (name, index), self.image.topics[name].partitions[index]
        if leader in partition.in_sync:
            return self.elect(name, index, now_ms, leader=leader)
        former, new = self._last_leader(place), self.brokers[leader].hosted.get(place)
        if former is None or new is None or not self.brokers[leader].alive:
            return False
        kept = _common_end(new, former)
        if leader not in partition.replicas or kept < new.log.end:
            return False
        self._note_lost(former, place, kept)
        self._lead(name, index, leader, (leader,), now_ms)
        return True

    def _note_lost(self, former: Hosted, place: Place, kept: int) -> None:
        key = former.topic_id, former.index
        end = self._acknowledged_end.get(key, 0)
        lost = [record for record in former.log.records(end) if record[0] >= kept]
        self._acknowledged_end[key] = min(end, kept)
        if kept < end:  # also if all of them had expired
            self.listener.lost(former.topic_id, place, lost, kept)

    def elect_behind(self, name: str, index: int, now_ms: float) -> bool:
        """Elect a leader that has all records, and knows an older high watermark.

        It learns the new one from its followers. They follow after ``follow``.
        """
        partition = self.image.topics[name].partitions[index]
        others = [n for n in partition.in_sync if self.brokers[n].alive and n != partition.leader]
        if not others or (hosted := self.brokers[others[0]].hosted.get((name, index))) is None:
            return False
        log = hosted.log
        if log.batches and log.high_watermark == log.end:
            log.high_watermark = max(log.start, log.batches[-1].base)
        self.held.add((name, index))
        return self.elect(name, index, now_ms, leader=others[0])

    def follow(self, name: str, index: int, now_ms: float) -> None:
        """Let the followers follow again after ``elect_behind``."""
        self.held.discard((name, index))
        if name in self.image.topics:
            self._replicate((name, index), now_ms)

    def reassign(self, name: str, index: int, replicas: Sequence[int], now_ms: float) -> bool:
        """Move a partition to other brokers, once they have all its records."""
        partition = self.image.topics[name].partitions[index]
        living = tuple(n for n in replicas if self.brokers[n].alive and not self.brokers[n].stuck)
        if not living or self._leading((name, index)) is None:
            return False
        both = tuple(dict.fromkeys([*partition.replicas, *living]))
        self._set_partition(name, index, replace(partition, replicas=both), now_ms)
        self.join(name, index, now_ms)
        grown = self.image.topics[name].partitions[index]
        level = tuple(n for n in living if n in grown.in_sync)
        if not level:
            return False
        leader = grown.leader if grown.leader in level else level[0]
        moved = PartitionImage(leader, grown.epoch + 1, living, level)
        self._set_partition(name, index, moved, now_ms)
        return True

    def join(self, name: str, index: int, now_ms: float) -> None:
        """Take all living replicas that follow into the replicas in sync."""
        leading = self._leading((name, index))
        if leading is None:
            return
        self._replicate((name, index), now_ms)
        partition = self.image.topics[name].partitions[index]
        joined = tuple(
            n
            for n in partition.replicas
            if n in partition.in_sync or self._is_level(n, (name, index), leading)
        )
        if joined != partition.in_sync:
            self._set_partition(name, index, replace(partition, in_sync=joined), now_ms)

    def drop_out(self, name: str, index: int, number: int, now_ms: float) -> None:
        """Take a replica out of the replicas in sync, as a leader does with one that lags."""
        partition = self.image.topics[name].partitions[index]
        if number != partition.leader:
            left = tuple(n for n in partition.in_sync if n != number)
            self._set_partition(name, index, replace(partition, in_sync=left), now_ms)

    def set_apart(self, name: str, index: int, number: int, now_ms: float) -> bool:
        """Let one follower of a partition not follow, and drop out of the replicas in sync."""
        partition = self.image.topics[name].partitions[index]
        if number == partition.leader or self._leading((name, index)) is None:
            return False
        self.apart.add((number, name, index))
        self.drop_out(name, index, number, now_ms)
        return True

    def bring_back(self, name: str, index: int, number: int, now_ms: float) -> None:
        """End ``set_apart``."""
        self.apart.discard((number, name, index))
        self.join(name, index, now_ms)

    def _is_level(self, number: int, place: Place, leading: Hosted) -> bool:
        hosted = self._follower(number, place, leading)
        needed = max(leading.log.high_watermark, leading.log.epochs[-1][1])
        follows = self._follows(number, place, leading)
        return follows and hosted is not None and hosted.log.end >= needed

    def _lead(
        self, name: str, index: int, leader: int, in_sync: tuple[int, ...], now_ms: float
    ) -> None:
        partition = self.image.topics[name].partitions[index]
        new = replace(partition, leader=leader, epoch=partition.epoch + 1, in_sync=in_sync)
        self._set_partition(name, index, new, now_ms)

    # -- brokers -----------------------------------------------------------------------------

    def stop_broker(self, number: int, now_ms: float, *, noticed: bool = True) -> None:
        """End a broker's process. ``noticed``: whether the controller elects others at once."""
        self.brokers[number].stop()
        if noticed:
            self.notice_stopped(number, now_ms)

    def notice_stopped(self, number: int, now_ms: float) -> None:
        """The controller sees that a broker is gone: others lead, the last in sync stays so."""
        if self.brokers[number].alive:
            return
        topics = {name: self._without(topic, number) for name, topic in self.image.topics.items()}
        left = tuple(n for n in self.image.brokers if n != number)
        self._set(topics, left)
        self._publish(self._places(), now_ms)

    def start_broker(self, number: int, now_ms: float, release: Release | None = None) -> None:
        """Start a broker. It registers, follows, and leads what has no leader."""
        broker = self.brokers[number]
        if broker.alive:
            return
        broker.start(release)
        # What it led before it stopped, it leads again only by an election.
        registered = tuple(sorted({*self.image.brokers, number}))
        topics = {name: self._with(topic, number) for name, topic in self.image.topics.items()}
        self._set(topics, registered)
        self._publish(self._places(), now_ms)
        for name, index in self._places():
            self.join(name, index, now_ms)

    def catch_up(self, number: int, now_ms: float) -> None:
        """Let a broker that lagged learn the metadata, and its replicas follow again."""
        broker = self.brokers[number]
        broker.lags = broker.stuck = False
        if broker.alive:
            broker.learn(self.image, now_ms)
        for name, index in self._places():
            self.join(name, index, now_ms)

    def _without(self, topic: TopicImage, number: int) -> TopicImage:
        partitions = tuple(self._partition_without(one, number) for one in topic.partitions)
        return topic if partitions == topic.partitions else replace(topic, partitions=partitions)

    def _partition_without(self, one: PartitionImage, number: int) -> PartitionImage:
        if number not in one.replicas:
            return one
        in_sync = tuple(n for n in one.in_sync if n != number) or one.in_sync
        if one.leader != number:
            epoch = one.epoch + self.brokers[number].release.counts_stops
            return replace(one, in_sync=in_sync, epoch=epoch)
        living = [n for n in in_sync if n != number and self.brokers[n].alive]
        leader = living[0] if living else NO_LEADER
        return replace(one, leader=leader, epoch=one.epoch + 1, in_sync=in_sync)

    def _with(self, topic: TopicImage, number: int) -> TopicImage:
        partitions = tuple(
            replace(one, leader=number, epoch=one.epoch + 1)
            if number in one.in_sync and (one.leader in (NO_LEADER, number))
            else one
            for one in topic.partitions
        )
        return topic if partitions == topic.partitions else replace(topic, partitions=partitions)

    # -- what brokers ask --------------------------------------------------------------------

    def nearest_replica(self, found: Hosted, rack: str, offset: int) -> int:
        """Returns the follower in a rack that a leader names to a client, or -1 (KIP-392)."""
        if not self.near_replicas:
            return -1
        partition = self.image.topics[found.name].partitions[found.index]
        near = []
        for number in partition.in_sync:
            broker = self.brokers[number]
            hosted = broker.hosted.get((found.name, found.index))
            if broker.rack == rack and broker.alive and hosted is not None:
                if hosted is found:
                    return -1
                if hosted.log.start <= offset <= hosted.log.end:
                    near.append((hosted.log.end, -number))
        return -max(near)[1] if near else -1

    def sends_away(self, broker: Broker) -> bool:
        """Returns whether a broker asks clients to start again at the bootstrap servers."""
        return broker.id in self.sent_away

    def coordinator(self, group: str) -> Broker | None:
        """Returns the broker that keeps a group's offsets."""
        living = [broker for broker in self.brokers.values() if broker.alive]
        return living[sum(group.encode()) % len(living)] if living else None

    # -- metadata ----------------------------------------------------------------------------

    def _places(self) -> list[Place]:
        return [(t.name, n) for t in self.image.topics.values() for n in range(len(t.partitions))]

    def _set_partition(self, name: str, index: int, new: PartitionImage, now_ms: float) -> None:
        topic = self.image.topics[name]
        partitions = (*topic.partitions[:index], new, *topic.partitions[index + 1 :])
        topics = {**self.image.topics, name: replace(topic, partitions=partitions)}
        self._set(topics, self.image.brokers)
        self._publish(((name, index),), now_ms)

    def _change(self, topic: TopicImage, now_ms: float) -> None:
        self._set({**self.image.topics, topic.name: topic}, self.image.brokers)
        self._publish([(topic.name, n) for n in range(len(topic.partitions))], now_ms)

    def _set(self, topics: dict[str, TopicImage], brokers: tuple[int, ...]) -> None:
        self.image = Image(topics, {topic.id: name for name, topic in topics.items()}, brokers)

    def _publish(self, places: Iterable[Place], now_ms: float) -> None:
        for broker in self.brokers.values():
            if broker.alive and not broker.lags:
                broker.learn(self.image, now_ms)
        for place in places:
            self._replicate(place, now_ms)


def _common_end(one: Hosted, other: Hosted) -> int:
    """Returns up to where the first log has the same batches as the other one."""
    for batch in reversed(one.log.batches):
        if other.log.has(batch):
            return batch.last + 1
    return min(one.log.start, other.log.end)


def _follow(hosted: Hosted, leading: Hosted) -> None:
    """Make a follower's log as its leader's: cut off what differs, and copy the rest."""
    log, leader = hosted.log, leading.log
    last = leader.batches[-1:]
    if log.end != leader.end or log.start > leader.start or log.batches[-1:] != last:
        if log.start > leader.start or log.end < leader.start:
            log.restart_at(leader.start)
        log.truncate(_common_end(hosted, leading))
        for batch in leader.batches[leader.first_at(log.end) :]:
            log.append(batch)
    log.move_start(leader.start)
