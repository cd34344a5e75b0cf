"""The watched partitions and their log ends, from metadata and fetch replies. Pure.

Every watched partition is in the fetch session of its leader, at its known log end. The log end is
the high watermark, or under read_committed the last stable offset. (The broker would answer a
position above the last stable offset at once, again and again.) A reply moves the log end, and the
session gets the new position with the next request. ``changed`` holds the partitions that the
driver must look at: the log end, the log start or the leader moved, or the partition is new or
gone.

A partition that its broker refuses leaves the session at once, because an error in a session turns
the long poll into a hot loop. It returns when the reply names the new leader (KIP-951), when
metadata names a leader (``leaderless``), or when it gets a new position (``out_of_range``).

This module has no socket, thread or clock. ``watch`` has them, and changes everything here under
its lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from kfetch import codes
from kfetch.errors import BrokerError
from kfetch.model import (
    NO_EPOCH,
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
from kfetch.reactions import Api
from kfetch.session.replies import PartitionReply

UNKNOWN = Position(-1, NO_EPOCH)
_REFUSALS_MIN = 3

PositionChanges = dict[TopicPartition, FetchPosition | None]
"""New positions for a session. None removes the partition from the session."""


@dataclass(slots=True)
class _WatchedPartition:
    topic_id: UUID
    leader: Leader | None
    """None while the leader is unknown."""
    log_end: Position
    """The log end, and the epoch of the leader that reported it."""
    log_start: Position = UNKNOWN
    """The log start, and the epoch of the leader that reported it. Another one may start lower."""
    in_session: bool = False
    """Whether the partition is in its leader's session."""
    confirmed: bool = True
    """Whether the current leader has confirmed the log end. Its log may be shorter."""

    def is_in_session_of(self, broker: Broker) -> bool:
        """Returns whether the partition is in the session of this broker."""
        return self.in_session and self.leader is not None and self.leader.broker == broker


@dataclass(slots=True)
class Refusal:
    """A partition that its leader refuses with a retriable error, while metadata names no other."""

    leader: Leader
    error: BrokerError
    since_s: float
    last_s: float
    count: int = 1

    @property
    def lasted_s(self) -> float:
        """Seconds from the first refusal to the last one; 0 for a few refusals.

        Only the driver asks for metadata. So a long micro-batch may lie between two refusals.
        """
        return self.last_s - self.since_s if self.count >= _REFUSALS_MIN else 0.0


class WatchState:
    """The watched partitions. Each call costs time for the changes, not for all partitions."""

    def __init__(self, *, isolation_level: int = READ_UNCOMMITTED, user: str = "") -> None:
        self._committed = isolation_level == READ_COMMITTED
        self._user = user
        self._watched: dict[TopicPartition, _WatchedPartition] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._position_changes: dict[Broker, PositionChanges] = defaultdict(dict)
        self._unanswered: dict[Broker, set[TopicPartition]] = defaultdict(set)
        """Partitions whose position a broker has got, and of which no reply has told since."""
        self._partition_counts: dict[Broker, int] = defaultdict(int)
        self.changed: set[TopicPartition] = set()
        """Partitions that changed since the driver last took this set."""
        self.leaderless: set[TopicPartition] = set()
        """Partitions that wait for metadata to name a leader."""
        self.out_of_range: set[TopicPartition] = set()
        """Partitions whose log does not reach the known log end."""
        self.permanent_error: BrokerError | None = None
        """An error that no retry removes."""
        self.refusals: dict[TopicPartition, Refusal] = {}
        """Partitions that their leader refuses since their last good reply."""

    def exists(self, tp: TopicPartition) -> bool:
        """Returns whether a partition exists and is subscribed, by the last metadata."""
        return tp in self._watched

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """Every watched partition."""
        return self._watched.keys()

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """The ids of the watched topics, without topics that have no id."""
        return self._topic_ids

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Returns the partition's leader; None if it is unknown or the partition is not watched."""
        watched = self._watched.get(tp)
        return watched.leader if watched else None

    def log_start(self, tp: TopicPartition) -> Position:
        """Returns the log start that a leader told last; its offset is -1 while it is unknown."""
        return self._watched[tp].log_start

    def log_end(self, tp: TopicPartition) -> Position | None:
        """Returns the log end, None until a new leader has confirmed it."""
        watched = self._watched[tp]
        return watched.log_end if watched.confirmed else None

    def known_log_ends(self) -> Iterator[tuple[TopicPartition, Position]]:
        """Yields each partition with its last known log end, confirmed or not."""
        for tp, watched in self._watched.items():
            yield tp, watched.log_end

    def partition_count(self, broker: Broker) -> int:
        """Returns the number of partitions that belong in a broker's session."""
        return self._partition_counts[broker]

    def brokers(self) -> list[Broker]:
        """Returns the brokers that lead watched partitions."""
        return [broker for broker, count in self._partition_counts.items() if count]

    def take_position_changes(self, broker: Broker) -> PositionChanges:
        """Returns the changes for a broker's session, and forgets them."""
        changes = self._position_changes.pop(broker, {})
        self._unanswered[broker].update(changes)
        return changes

    def update_metadata(
        self,
        view: ClusterView,
        partitions: Iterable[TopicPartition],
        hidden: Collection[TopicPartition] = (),
    ) -> list[TopicPartition]:
        """Apply fresh metadata of the subscribed ``partitions``.

        ``hidden``: partitions that metadata does not name and that may exist. They stay as they
        are: their leader's session tells more.

        Returns the partitions without a known log end: new ones, and those of a topic that was
        created again. The caller looks up their log ends and calls ``watch_from``.
        """
        subscribed = dict.fromkeys(partitions)
        for tp in [tp for tp in self._watched if tp not in subscribed and tp not in hidden]:
            self._remove(tp)
        hidden_topics = {tp.topic for tp in hidden}
        hidden_ids = {name: i for name, i in self._topic_ids.items() if name in hidden_topics}
        self._topic_ids = hidden_ids | {
            name: view.topics[name].topic_id
            for name in dict.fromkeys(tp.topic for tp in subscribed)
            if view.topics[name].topic_id != NO_TOPIC_ID
        }
        return [tp for tp in subscribed if not self._update_leader(tp, view)]

    def watch_from(
        self,
        tp: TopicPartition,
        leader: Leader | None,
        log_end: Position,
        log_start: Position = UNKNOWN,
    ) -> None:
        """Watch a partition from a log end on."""
        if tp in self._watched:
            self._leave_session(tp, self._watched[tp])
        topic_id = self._topic_ids.get(tp.topic, NO_TOPIC_ID)
        self._watched[tp] = _WatchedPartition(topic_id, None, log_end, log_start)
        self.out_of_range.discard(tp)
        self.changed.add(tp)
        self._set_leader(tp, self._watched[tp], leader)
        self._watched[tp].confirmed = True

    def accept_reply(
        self,
        broker: Broker,
        replies: Mapping[TopicPartition, PartitionReply],
        endpoints: Mapping[int, Broker],
        now_s: float = 0.0,
        *,
        checks_epochs: bool = True,
        omits_unchanged: bool = True,
    ) -> int:
        """Apply a broker's fetch reply, and return the number of partitions that moved.

        A partition with a position change that the broker has not received yet is left as it is.
        The reply is for the position before that change. ``now_s``: monotonic seconds.
        ``checks_epochs``: whether the broker would have refused another leader epoch than ours.
        ``omits_unchanged``: whether a partition that the reply leaves out is as the broker told
        last. Otherwise the broker throttles, or had no room for it.
        """
        waiting = self._position_changes.get(broker, {})
        count_before = len(waiting)
        if omits_unchanged:
            silent = self._unanswered.pop(broker, set()).difference(replies, waiting)
            self._confirm(broker, silent)
        for tp, reply in list(replies.items()):
            watched = self._watched.get(tp)
            if watched is None or not watched.is_in_session_of(broker) or tp in waiting:
                continue
            if reply.error:
                self._handle_error(tp, watched, reply, endpoints, now_s)
            else:
                self._update_offsets(tp, watched, reply, checks_epochs=checks_epochs)
        return len(self._position_changes.get(broker, {})) - count_before

    def _confirm(self, broker: Broker, silent: Iterable[TopicPartition]) -> None:
        """Confirm the log ends of partitions that a broker's reply left out.

        A session leaves out partitions whose high watermark and log start are as the broker told
        last (KIP-227), also if the request gave another leader epoch.
        """
        for tp in silent:
            watched = self._watched.get(tp)
            if watched is not None and watched.is_in_session_of(broker) and not watched.confirmed:
                watched.confirmed = True
                self.changed.add(tp)

    def _update_offsets(
        self,
        tp: TopicPartition,
        watched: _WatchedPartition,
        reply: PartitionReply,
        *,
        checks_epochs: bool,
    ) -> None:
        log_end = reply.last_stable_offset if self._committed else reply.high_watermark
        changed = not watched.confirmed
        watched.confirmed = True
        self.refusals.pop(tp, None)
        # An epoch that is too old would look like a truncation later.
        epoch = watched.leader.epoch if watched.leader and checks_epochs else NO_EPOCH
        start, known = reply.log_start_offset, watched.log_start
        if start > known.offset or epoch > known.leader_epoch:
            changed |= start > 0 and start != known.offset
            watched.log_start = Position(start, epoch)
        # Never backwards: a new leader's high watermark may lag for a moment. A truncated log shows
        # by OFFSET_OUT_OF_RANGE or by its epochs.
        if log_end > watched.log_end.offset and watched.leader is not None:
            watched.log_end = Position(log_end, epoch)
            self._send_position(tp, watched)
            changed = True
        if changed:
            self.changed.add(tp)

    def _handle_error(
        self,
        tp: TopicPartition,
        watched: _WatchedPartition,
        reply: PartitionReply,
        endpoints: Mapping[int, Broker],
        now_s: float,
    ) -> None:
        leader = watched.leader
        self._leave_session(tp, watched)
        self.changed.add(tp)
        if reply.error == codes.OFFSET_OUT_OF_RANGE:
            self.out_of_range.add(tp)
        elif not codes.retriable(reply.error, Api.FETCH):
            self.permanent_error = _refused(tp, leader, reply.error, self._user)
        else:
            newer_leader = _newer_leader(reply, endpoints, leader)
            if newer_leader is None and leader is not None:
                self._note_refusal(tp, leader, reply.error, now_s)
            self._set_leader(tp, watched, newer_leader)

    def _note_refusal(self, tp: TopicPartition, leader: Leader, code: int, now_s: float) -> None:
        """Note a refusal. After an election the count starts again."""
        last = self.refusals.get(tp)
        if last is None or last.leader.is_older_than(leader.epoch):
            error = _refused(tp, leader, code, self._user)
            self.refusals[tp] = Refusal(leader, error, since_s=now_s, last_s=now_s)
        else:
            last.last_s = now_s
            last.count += 1

    def _update_leader(self, tp: TopicPartition, view: ClusterView) -> bool:
        """Apply the partition's leader from metadata; return False if its log end is unknown."""
        watched, topic = self._watched.get(tp), view.topics[tp.topic]
        if watched is None:
            return False
        if NO_TOPIC_ID not in (topic.topic_id, watched.topic_id) and (
            topic.topic_id != watched.topic_id
        ):
            self._remove(tp)
            return False
        leader = topic.leaders[tp.partition]
        if leader is None:
            self.refusals.pop(tp, None)
        if tp not in self.out_of_range and not _is_stale(leader, watched):
            self._set_leader(tp, watched, leader)
        return True

    def _set_leader(
        self, tp: TopicPartition, watched: _WatchedPartition, leader: Leader | None
    ) -> None:
        """Give the partition a leader, or none, and move it to that leader's session."""
        if watched.in_session and leader == watched.leader:
            return
        if leader is None or not watched.is_in_session_of(leader.broker):
            self._leave_session(tp, watched)
        watched.leader = leader
        watched.confirmed = False
        self.changed.add(tp)
        if leader is None:
            self.leaderless.add(tp)
            return
        self.leaderless.discard(tp)
        self._partition_counts[leader.broker] += not watched.in_session
        watched.in_session = True
        self._send_position(tp, watched)

    def _send_position(self, tp: TopicPartition, watched: _WatchedPartition) -> None:
        """Send the log end as the new position with the session's next request."""
        if watched.leader is not None:
            self._position_changes[watched.leader.broker][tp] = FetchPosition(
                topic_id=watched.topic_id,
                offset=watched.log_end.offset,
                max_bytes=1,
                leader_epoch=watched.leader.epoch,
            )

    def _leave_session(self, tp: TopicPartition, watched: _WatchedPartition) -> None:
        if watched.in_session and watched.leader is not None:
            self._position_changes[watched.leader.broker][tp] = None
            self._partition_counts[watched.leader.broker] -= 1
        watched.in_session = False

    def _remove(self, tp: TopicPartition) -> None:
        self._leave_session(tp, self._watched.pop(tp))
        self.leaderless.discard(tp)
        self.out_of_range.discard(tp)
        self.refusals.pop(tp, None)
        self.changed.add(tp)


def _refused(tp: TopicPartition, leader: Leader | None, code: int, user: str) -> BrokerError:
    return codes.error(
        code,
        f"watching {tp} at {leader.broker if leader else 'an unknown leader'}",
        api=Api.FETCH,
        **tp._asdict(),
        user=user,
    )


def _is_stale(leader: Leader | None, watched: _WatchedPartition) -> bool:
    """Returns whether metadata names an older leader than the known one (KIP-320).

    A partition outside of a session accepts any leader.
    """
    return (
        watched.in_session
        and watched.leader is not None
        and leader is not None
        and leader.epoch < watched.leader.epoch
    )


def _newer_leader(
    reply: PartitionReply, endpoints: Mapping[int, Broker], leader: Leader | None
) -> Leader | None:
    """Returns the leader that an error names, if it is newer than ``leader`` (KIP-951)."""
    if reply.leader is None or reply.leader[0] not in endpoints:
        return None
    node_id, epoch = reply.leader
    if leader is not None and epoch <= leader.epoch:
        return None
    return Leader(broker=endpoints[node_id], epoch=epoch)
