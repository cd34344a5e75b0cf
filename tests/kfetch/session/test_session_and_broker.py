"""Client and broker model against each other, driven by hypothesis."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.metadata import EPOCH_MAX, FetchMetadata
from kfetch.session.partitions import reply_key
from kfetch.session.plan import FetchPlan
from kfetch.session.session import FetchSession
from kfetch.session.transitions import RequestKind, SessionEvent, SessionState
from tests.examples import examples
from tests.kfetch.session.broker import SHARDS, Broker, Response, as_held

TOPICS = ("a", "b", "c")
PARTITIONS = 3
SPREAD = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
tps = st.sampled_from(SPREAD)


class ClientAndBroker(RuleBasedStateMachine):
    """A reader of partitions that follows the rules, and a broker to which anything may happen."""

    @initialize(
        slots=st.sampled_from([4 * SHARDS, SHARDS, 0]),
        topic_ids=st.sampled_from([True, True, True, False]),
        partition_count=st.integers(1, len(SPREAD)),
        room=st.sampled_from([None, None, 1, 4]),
    )
    def start(self, slots: int, topic_ids: bool, partition_count: int, room: int | None) -> None:
        self.broker = Broker(slots, room=room)
        self.client = FetchSession(topic_ids=topic_ids)
        self.topic_ids = topic_ids
        self.now_ms = 0
        self.answers = 0
        self.created = 0
        self.positions: dict[TopicPartition, FetchPosition] = {}
        self.changes: dict[TopicPartition, FetchPosition | None] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.flight: tuple[FetchPlan, dict[TopicPartition, FetchPosition | None]] | None = None
        self.response: Response | None = None
        self.ends_when_served: dict[TopicPartition, int] = {}
        for topic in TOPICS:
            self.recreate(topic)
        for tp in SPREAD[:partition_count]:
            self.add(tp, True)

    # -- what the caller reads ------------------------------------------------------------

    def may_use_ids(self) -> bool:
        known = all(position.topic_id != NO_TOPIC_ID for position in self.positions.values())
        return known and self.topic_ids

    def set_position(self, tp: TopicPartition, position: FetchPosition | None) -> None:
        self.changes[tp] = position
        if position is None:
            self.positions.pop(tp, None)
        else:
            self.positions[tp] = position

    @rule(tp=tps, knows_id=st.sampled_from([True, True, True, True, False]))
    def add(self, tp: TopicPartition, knows_id: bool) -> None:
        topic_id = self.broker.topics[tp.topic] if knows_id else NO_TOPIC_ID
        self.set_position(tp, FetchPosition(topic_id=topic_id, offset=0, max_bytes=100))

    @rule(tp=tps, offset=st.integers(0, 9), epoch=st.integers(-1, 2))
    def move(self, tp: TopicPartition, offset: int, epoch: int) -> None:
        if held := self.positions.get(tp):
            self.set_position(tp, replace(held, offset=offset, leader_epoch=epoch))

    @rule(tp=tps)
    def forget(self, tp: TopicPartition) -> None:
        self.set_position(tp, None)

    @rule()
    def forget_all(self) -> None:
        for tp in list(self.positions):
            self.set_position(tp, None)

    @rule(topic=st.sampled_from(TOPICS))
    def follow_topic(self, topic: str) -> None:
        """The caller learns the ids of a topic that was re-created, or that it had no id of."""
        topic_id = self.broker.topics[topic]
        for tp in [tp for tp in self.positions if tp.topic == topic]:
            self.set_position(tp, replace(self.positions[tp], topic_id=topic_id, offset=0))

    # -- what happens to the broker -------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS))
    def recreate(self, topic: str) -> None:
        self.created += 1
        self.broker.create_topic(topic, UUID(int=self.created), PARTITIONS)

    @rule(tp=tps, records=st.integers(1, 5))
    def append(self, tp: TopicPartition, records: int) -> None:
        self.broker.append(tp, records)

    @rule(tp=tps, error=st.sampled_from([0, 0, 6]))
    def fail_or_heal(self, tp: TopicPartition, error: int) -> None:
        self.broker.errors[self.broker.topics[tp.topic], tp.partition] = error

    @rule(ms=st.sampled_from([1, 60_000, 130_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(what=st.sampled_from(["evict us", "crowd in", "others leave", "restart"]))
    def disturb(self, what: str) -> None:
        if what == "evict us":
            self.broker.cache.remove(self.client.metadata.session_id)
        elif what == "crowd in":
            self.crowd_in()
        elif what == "others leave":
            self.others_leave()
        else:
            self.broker.restart()

    def crowd_in(self) -> None:
        """Other clients ask for sessions, with more partitions than we have."""
        for _ in range(2 * SHARDS):
            other = self.broker.cache.create(dict, 12, True, self.now_ms)
            if other:
                self.broker.cache.sessions[other].size = 12

    def others_leave(self) -> None:
        for other in list(self.broker.cache.sessions.values()):
            if not other.partitions:
                self.broker.cache.remove(other.id)

    @rule()
    @precondition(lambda self: self.client.state is SessionState.SESSION and self.flight is None)
    def jump_to_last_epoch(self) -> None:
        """A session of two thousand million requests is made by hand, on both sides."""
        ours = self.client.metadata
        session = self.broker.cache.find(ours.session_id)
        if session and session.epoch == ours.epoch:
            session.epoch = EPOCH_MAX
            self.client._metadata = FetchMetadata(session_id=ours.session_id, epoch=EPOCH_MAX)

    # -- requests and what becomes of them ------------------------------------------------

    @rule(throttle_ms=st.sampled_from([0, 0, 0, 0, 5]))
    @precondition(lambda self: self.flight is None)
    def send(self, throttle_ms: int = 0) -> None:
        before = repr(self.client), dict(self.client.partitions)
        plan = self.client.plan(self.changes)

        assert plan == self.client.plan(self.changes)
        assert before == (repr(self.client), dict(self.client.partitions))

        assert self.may_use_ids() is plan.uses_topic_ids or not self.positions

        self.flight = plan, dict(self.changes)
        self.response = self.broker.fetch(plan, now_ms=self.now_ms, throttle_ms=throttle_ms)
        self.ends_when_served = {
            tp: self.broker.ends[self.broker.topics[tp.topic], tp.partition] for tp in SPREAD
        }

        if self.broker.served is not None:
            assert as_held(self.positions, plan.uses_topic_ids) == self.broker.served

    @rule()
    @precondition(lambda self: self.flight is None)
    def lose_request(self) -> None:
        self.answers += 1
        outcome = self.client.reject(self.client.plan(self.changes), "connection refused")

        assert (False, SessionEvent.REJECTED) == (outcome.accepted, outcome.event)

    @rule()
    @precondition(lambda self: self.flight is not None)
    def lose_reply(self) -> None:
        assert self.flight is not None
        plan, _ = self.flight
        self.answers += 1
        self.flight = None

        assert SessionEvent.REJECTED == self.client.reject(plan, OSError("reset")).event

    @rule(times=st.integers(1, 3))
    @precondition(lambda self: self.flight is None)
    def exchange(self, times: int) -> None:
        for _ in range(times):
            self.send()
            self.receive()

    @rule(moves=st.lists(st.tuples(tps, st.integers(0, 5)), max_size=3))
    @precondition(lambda self: self.flight is None)
    def read_on(self, moves: list[tuple[TopicPartition, int]]) -> None:
        for tp, offset in moves:
            self.move(tp, offset, -1)
        self.exchange(1)

    @rule(twice=st.booleans(), stranger=st.sampled_from([False] * 5 + [True]))
    @precondition(lambda self: self.flight is not None)
    def receive(self, twice: bool = False, stranger: bool = False) -> None:
        assert self.flight is not None
        assert self.response is not None
        plan, planned_changes = self.flight
        reply = self.response.reply
        partitions = list(reply.partitions) * (1 + twice)
        partitions += [("never asked for", 0)] * stranger
        outcome = self.client.accept(plan, replace(reply, partitions=partitions))
        self.answers += 1
        self.flight = None
        if outcome.accepted:
            self.use(plan, planned_changes, set(outcome.partitions.values()))

            assert set(reply.partitions) == set(outcome.partitions)

        if stranger and not reply.error and plan.request is not RequestKind.CLOSE:
            assert SessionEvent.INVALID_REPLY == outcome.event

    def use(
        self,
        plan: FetchPlan,
        planned_changes: dict[TopicPartition, FetchPosition | None],
        replied: set[TopicPartition],
    ) -> None:
        """What a caller does with an accepted reply."""
        assert self.response is not None
        for tp, change in planned_changes.items():
            if tp in self.changes and self.changes[tp] == change:
                del self.changes[tp]
        self.ends.update({tp: self.ends_when_served[tp] for tp in replied})
        self.ends = {tp: end for tp, end in self.ends.items() if tp in self.client.partitions}
        self.check_nothing_missed(plan, replied)

    def check_nothing_missed(self, plan: FetchPlan, replied: set[TopicPartition]) -> None:
        """A partition that the broker left out has the high watermark that we know.

        A full reply may omit others. The next request names them. A reply of a session may, too:
        the broker has got their positions (``both_sides_agree``), and tells of them later.
        """
        assert self.response is not None
        if self.response.reply.throttle_ms or self.broker.served is None:
            return
        omitted = set(self.client.partitions) - replied if plan.full and self.broker.room else set()

        assert omitted <= set(self.client.plan({}).send)

        for tp in set(self.client.partitions) - replied - omitted:
            assert self.ends_when_served[tp] == self.ends.get(tp) or self.is_owed(tp), tp

    def is_owed(self, tp: TopicPartition) -> bool:
        """Whether a later reply has a partition for which this one had no room."""
        session = self.broker.cache.find(self.client.metadata.session_id)
        if self.broker.room is None or session is None:  # a new session tells everything
            return self.broker.room is not None
        topic_id = self.client.partitions[tp].topic_id
        cached = session.partitions[reply_key(tp, topic_id, session.by_id)]
        return cached.high_watermark != self.ends_when_served[tp]

    @rule()
    @precondition(lambda self: self.flight is None and self.client.state is not SessionState.NONE)
    def close(self) -> None:
        plan = self.client.close()
        if plan is None:
            assert SessionState.SESSIONLESS == self.client.state
            return
        self.answers += 1
        outcome = self.client.accept(plan, self.broker.fetch(plan, now_ms=self.now_ms).reply)
        self.changes = dict(self.positions)
        self.ends.clear()

        assert SessionEvent.CLOSED == outcome.event
        assert not self.client.partitions
        assert self.broker.cache.find(plan.session_id) is None

    # -- what always holds ----------------------------------------------------------------

    @invariant()
    def counters_add_up(self) -> None:
        """Every answer, or its absence, is counted once."""
        assert self.answers == sum(self.client.event_counts.values())

    @invariant()
    def never_out_of_step(self) -> None:
        """Whatever is lost, a client that has one request in flight never sends a wrong epoch."""
        counts = self.client.event_counts

        assert 0 == counts[SessionEvent.EPOCH_MISMATCH] == counts[SessionEvent.TOPIC_ID_ERROR]

    @invariant()
    def both_sides_agree(self) -> None:
        """In a session whose epoch both know, the broker holds what the client believes."""
        ours = self.client.metadata
        session = self.broker.cache.find(ours.session_id)
        if self.flight is None and session and session.epoch == ours.epoch:
            held = {key: cached.position for key, cached in session.partitions.items()}
            assert as_held(dict(self.client.partitions), session.by_id) == held

    @invariant()
    def changes_survive(self) -> None:
        """Acknowledged positions and the changes add up to the caller's positions."""
        together = {**self.client.partitions, **self.changes}
        if self.flight is None:
            assert self.positions == {tp: p for tp, p in together.items() if p is not None}

    def teardown(self) -> None:
        """Every change is known to the broker after a few requests that nothing disturbs."""
        if not hasattr(self, "client"):
            return
        if self.flight is not None:
            self.receive()
        for _ in range(3):
            self.send()
            self.receive()

        assert self.positions == self.client.partitions
        assert self.broker.served is None or as_held(self.positions, self.keyed()) == (
            self.broker.served
        )
        assert not self.broker.slots or not self.positions or self.settled()

    def keyed(self) -> bool:
        return self.client.plan({}).uses_topic_ids

    def settled(self) -> bool:
        return self.client.state in (SessionState.SESSION, SessionState.SESSIONLESS)


TestClientAndBroker = ClientAndBroker.TestCase
TestClientAndBroker.settings = settings(
    examples(60),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
