"""What the driver knows of its partitions, pure: from metadata and fetch replies to log ends.

Every partition that is watched stands in the fetch session of its leader, at the log end that is
known: the high watermark, under read_committed the last stable offset (a position above it would
make the broker answer at once, for ever). A reply moves the end, and the new end is an order to
that session. What needs a look by the driver is in ``changed``: an end or a log start that moved, a
new leader, a partition that came or went.

A partition whose broker refuses it leaves the session at once, because an error in a session turns
the long poll into a hot loop. It comes back with the leader that the reply names (KIP-951), else
with metadata (``astray``), else with a new position (``out_of_range``).

No socket, thread or clock: ``watch`` has those, and the lock under which all of this is called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kfetch import codes
from kfetch.errors import BrokerError
from kfetch.model import (
    NO_TOPIC_ID,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Broker,
    ClusterView,
    FetchPosition,
    Leader,
    TopicPartition,
)
from kfetch.offsets import Position
from kfetch.replies import PartitionReply

UNKNOWN_OFFSET = -1

Orders = dict[TopicPartition, FetchPosition | None]
"""What a session is to change; None: forget the partition."""


@dataclass(slots=True)
class Watched:
    """One partition."""

    topic_id: UUID
    leader: Leader | None
    """Who leads it, None while nobody is known to."""
    end: Position
    """The log end, and the epoch of the leader that told it."""
    log_start: int = UNKNOWN_OFFSET
    asked: bool = False
    """Whether it stands in its leader's session."""
    answered: bool = True
    """Whether the leader of now has vouched for the end; its log may be shorter."""


class WatchState:
    """The watched partitions; costs follow what changes, never what there is."""

    def __init__(self, *, isolation_level: int = READ_UNCOMMITTED) -> None:
        self._committed = isolation_level == READ_COMMITTED
        self._watched: dict[TopicPartition, Watched] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._orders: dict[Broker, Orders] = defaultdict(dict)
        self._asked: dict[Broker, int] = defaultdict(int)
        self.changed: set[TopicPartition] = set()
        """What the driver has not looked at yet."""
        self.astray: set[TopicPartition] = set()
        """Partitions that wait for metadata to name a leader."""
        self.out_of_range: set[TopicPartition] = set()
        """Partitions whose log does not reach the end that was known."""
        self.failure: BrokerError | None = None
        """An error that no retry mends."""

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._watched

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """Every watched partition."""
        return self._watched.keys()

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """Ids of the watched topics, without those that have none."""
        return self._topic_ids

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Who leads a partition, None if nobody is known to, or it does not exist."""
        watched = self._watched.get(tp)
        return watched.leader if watched else None

    def log_start(self, tp: TopicPartition) -> int:
        """The log start offset, -1 while it is not known."""
        return self._watched[tp].log_start

    def end(self, tp: TopicPartition) -> Position | None:
        """The log end; None while a new leader has not vouched for it."""
        watched = self._watched[tp]
        return watched.end if watched.answered else None

    def asked_of(self, broker: Broker) -> int:
        """How many partitions a broker's session is to hold."""
        return self._asked[broker]

    def brokers(self) -> list[Broker]:
        """The brokers whose sessions are to hold something."""
        return [broker for broker, count in self._asked.items() if count]

    def orders(self, broker: Broker) -> Orders:
        """What a broker's session is to change, told once."""
        return self._orders.pop(broker, {})

    def follow(
        self, view: ClusterView, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Take fresh metadata of the subscribed partitions.

        Returns those that have no position here yet: new ones, and those of a topic that was
        created again. ``place`` gives them one.
        """
        wanted = dict.fromkeys(partitions)
        for tp in [tp for tp in self._watched if tp not in wanted]:
            self._remove(tp)
        self._topic_ids = {
            name: view.topics[name].topic_id
            for name in dict.fromkeys(tp.topic for tp in wanted)
            if view.topics[name].topic_id != NO_TOPIC_ID
        }
        return [tp for tp in wanted if not self._followed(tp, view)]

    def place(
        self, tp: TopicPartition, leader: Leader | None, end: Position, log_start: int = -1
    ) -> None:
        """Watch a partition from a log end on."""
        if tp in self._watched:
            self._leave_session(tp, self._watched[tp])
        topic_id = self._topic_ids.get(tp.topic, NO_TOPIC_ID)
        self._watched[tp] = Watched(topic_id, None, end, log_start)
        self.out_of_range.discard(tp)
        self.changed.add(tp)
        self._lead(tp, self._watched[tp], leader)
        self._watched[tp].answered = True

    def replied(
        self,
        broker: Broker,
        replies: Mapping[TopicPartition, PartitionReply],
        endpoints: Mapping[int, Broker],
    ) -> int:
        """Take an accepted reply; returns how many partitions it moved.

        A partition with an order that waits has moved meanwhile, so the reply, which answers the
        order before, says nothing of it.
        """
        waiting = self._orders.get(broker, {})
        before = len(waiting)
        for tp, reply in list(replies.items()):
            watched = self._watched.get(tp)
            if watched is None or not _stands(watched, broker) or tp in waiting:
                continue
            if reply.error:
                self._refused(tp, watched, reply, endpoints)
            else:
                self._told(tp, watched, reply)
        return len(self._orders.get(broker, {})) - before

    def _told(self, tp: TopicPartition, watched: Watched, reply: PartitionReply) -> None:
        end = reply.last_stable_offset if self._committed else reply.high_watermark
        news = not watched.answered
        watched.answered = True
        if reply.log_start_offset > watched.log_start:
            news |= reply.log_start_offset > 0
            watched.log_start = reply.log_start_offset
        # Never backwards: a new leader's high watermark may lag for a moment, and a log that was
        # truncated is told by OFFSET_OUT_OF_RANGE or found by its epochs.
        if end > watched.end.offset and watched.leader is not None:
            watched.end = Position(end, watched.leader.epoch)
            self._order(tp, watched)
            news = True
        if news:
            self.changed.add(tp)

    def _refused(
        self,
        tp: TopicPartition,
        watched: Watched,
        reply: PartitionReply,
        endpoints: Mapping[int, Broker],
    ) -> None:
        leader = watched.leader
        self._leave_session(tp, watched)
        self.changed.add(tp)
        if reply.error == codes.OFFSET_OUT_OF_RANGE:
            self.out_of_range.add(tp)
        elif not codes.retriable(reply.error):
            self.failure = codes.error(
                reply.error,
                f"watching {tp} at {leader.broker if leader else 'nobody'}",
                topic=tp.topic,
                partition=tp.partition,
            )
        else:
            self._lead(tp, watched, _hinted(reply, endpoints, leader))

    def _followed(self, tp: TopicPartition, view: ClusterView) -> bool:
        """Take a partition's leader from metadata; False if it has no position here."""
        watched, topic = self._watched.get(tp), view.topics[tp.topic]
        if watched is None:
            return False
        if NO_TOPIC_ID not in (topic.topic_id, watched.topic_id) and (
            topic.topic_id != watched.topic_id
        ):
            self._remove(tp)
            return False
        leader = topic.leaders[tp.partition]
        if tp not in self.out_of_range and not _older(leader, watched):
            self._lead(tp, watched, leader)
        return True

    def _lead(self, tp: TopicPartition, watched: Watched, leader: Leader | None) -> None:
        """The partition has another leader, or again one, or none for now."""
        if watched.asked and leader == watched.leader:
            return
        if watched.asked and (leader is None or not _stands(watched, leader.broker)):
            self._leave_session(tp, watched)
        watched.leader = leader
        watched.answered = False
        self.changed.add(tp)
        if leader is None:
            self.astray.add(tp)
            return
        self.astray.discard(tp)
        self._asked[leader.broker] += not watched.asked
        watched.asked = True
        self._order(tp, watched)

    def _order(self, tp: TopicPartition, watched: Watched) -> None:
        if watched.leader is not None:
            self._orders[watched.leader.broker][tp] = FetchPosition(
                topic_id=watched.topic_id,
                offset=watched.end.offset,
                max_bytes=1,
                leader_epoch=watched.leader.epoch,
            )

    def _leave_session(self, tp: TopicPartition, watched: Watched) -> None:
        if watched.asked and watched.leader is not None:
            self._orders[watched.leader.broker][tp] = None
            self._asked[watched.leader.broker] -= 1
        watched.asked = False

    def _remove(self, tp: TopicPartition) -> None:
        self._leave_session(tp, self._watched.pop(tp))
        self.astray.discard(tp)
        self.out_of_range.discard(tp)
        self.changed.add(tp)


def _stands(watched: Watched, broker: Broker) -> bool:
    """Whether a partition stands in this broker's session."""
    return watched.asked and watched.leader is not None and watched.leader.broker == broker


def _older(leader: Leader | None, watched: Watched) -> bool:
    """Whether metadata lags behind what is known (KIP-320). A partition astray takes any."""
    return (
        watched.asked
        and watched.leader is not None
        and leader is not None
        and leader.epoch < watched.leader.epoch
    )


def _hinted(
    reply: PartitionReply, endpoints: Mapping[int, Broker], leader: Leader | None
) -> Leader | None:
    """The leader that an error names, if it is newer than ours (KIP-951)."""
    if reply.leader is None or reply.leader[0] not in endpoints:
        return None
    node_id, epoch = reply.leader
    if leader is not None and epoch <= leader.epoch:
        return None
    return Leader(broker=endpoints[node_id], epoch=epoch)
