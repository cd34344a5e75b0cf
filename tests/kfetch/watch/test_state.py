"""The watched partitions: a table of replies, and random histories of a log."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kfetch.model import (
    NO_EPOCH,
    NO_TOPIC_ID,
    Broker,
    ClusterView,
    FetchPosition,
    Leader,
    Topic,
    TopicPartition,
)
from kfetch.offsets import Position
from kfetch.session.replies import PartitionReply
from kfetch.watch.state import WatchState
from tests.examples import examples

ONE, TWO = (Broker(node_id=n, host="h", port=n) for n in (1, 2))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID, NEW_ID = UUID(int=7), UUID(int=8)
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, UNAUTHORIZED = 1, 3, 6, 29
FENCED, UNKNOWN_EPOCH, UNKNOWN_ID, INCONSISTENT_ID = 74, 75, 100, 103
SERVER_ERROR = -1


def view(*leaders: Leader | None, topic_id: UUID = ID) -> ClusterView:
    """Metadata of topic t, one leader per partition."""
    topic = Topic(name="t", topic_id=topic_id, internal=False, leaders=dict(enumerate(leaders)))
    return ClusterView(brokers={1: ONE, 2: TWO}, topics={"t": topic})


def reply(
    end: int = 10,
    *,
    error: int = 0,
    stable: int | None = None,
    start: int = 0,
    leader: tuple[int, int] | None = None,
) -> PartitionReply:
    """One partition of a reply."""
    return PartitionReply(
        key=(ID, 0),
        error=error,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
        log_start_offset=start,
        diverging=None,
        leader=leader,
        aborted=(),
        preferred_read_replica=-1,
        records=memoryview(b""),
    )


def position(offset: int, epoch: int = 3, topic_id: UUID = ID) -> FetchPosition:
    """The partition's entry in a session."""
    return FetchPosition(topic_id=topic_id, offset=offset, max_bytes=1, leader_epoch=epoch)


def metadata_update(state: WatchState, metadata: ClusterView) -> list[TopicPartition]:
    """Apply metadata. All of its partitions are subscribed."""
    return state.update_metadata(
        metadata, [TopicPartition("t", p) for p in metadata.topics["t"].leaders]
    )


@pytest.fixture
def state() -> WatchState:
    """t-0 at broker 1 with log end 10 under epoch 3. No change waits for a poller or the driver."""
    made = watching()
    made.take_position_changes(ONE)
    made.changed.clear()
    return made


def watching(isolation_level: int = 0) -> WatchState:
    """The same state before its first poll."""
    made = WatchState(isolation_level=isolation_level)
    led = Leader(broker=ONE, epoch=3)
    assert [T0] == metadata_update(made, view(led))
    made.watch_from(T0, led, Position(10, 3), Position(0, 3))
    return made


def test_a_watched_partition_enters_a_session() -> None:
    """A newly watched partition enters its leader's session at its log end."""
    made = watching()

    assert {T0} == made.changed
    assert {T0: position(10)} == made.take_position_changes(ONE)
    assert {} == made.take_position_changes(ONE)


MOVES: list[tuple[int, PartitionReply, Position, bool, bool]] = [
    # isolation level, reply, log end after it, whether the session moves, whether the driver looks
    (0, reply(10), Position(10, 3), False, False),
    (0, reply(12), Position(12, 3), True, True),
    (0, reply(12, stable=11), Position(12, 3), True, True),
    (1, reply(12, stable=11), Position(11, 3), True, True),
    (1, reply(12, stable=10), Position(10, 3), False, False),
    (0, reply(8), Position(10, 3), False, False),
    (0, reply(10, start=4), Position(10, 3), False, True),
    (0, reply(-1), Position(10, 3), False, False),
]


@pytest.mark.parametrize(("level", "partition_reply", "end", "moved_session", "changed"), MOVES)
def test_replies_move_the_end(
    level: int, partition_reply: PartitionReply, end: Position, moved_session: bool, changed: bool
) -> None:
    """The log end is the high watermark, or the last stable offset under read_committed. It never
    moves back. A new log start is a change for the driver, but not for the session."""
    state = watching(level)
    state.take_position_changes(ONE)
    state.changed.clear()
    moved = state.accept_reply(ONE, {T0: partition_reply}, {})

    assert end == state.log_end(T0)
    assert moved_session == (T0 in state.take_position_changes(ONE)) == bool(moved)
    assert changed == (T0 in state.changed)
    assert partition_reply.log_start_offset == state.log_start(T0).offset


def test_a_log_start_is_of_the_leader_that_told_it(state: WatchState) -> None:
    """Within an epoch the log start only grows. A new leader vouches for its own: the log start of
    the former one keeps its epoch until then, so a check of epochs finds where histories part."""
    state.accept_reply(ONE, {T0: reply(10, start=6)}, {})
    state.accept_reply(ONE, {T0: reply(10, start=4)}, {})
    assert Position(6, 3) == state.log_start(T0)
    metadata_update(state, view(Leader(broker=TWO, epoch=4)))
    assert Position(6, 3) == state.log_start(T0)
    state.take_position_changes(TWO)
    state.accept_reply(TWO, {T0: reply(10, start=4)}, {})
    assert Position(4, 4) == state.log_start(T0)


def test_a_session_that_does_not_check_epochs_vouches_for_none(state: WatchState) -> None:
    """A broker whose session ignores leader epochs (KAFKA-9338) may have another epoch than the
    known one. So its log ends have none, or a later check would find a truncation."""
    state.accept_reply(ONE, {T0: reply(12)}, {}, checks_epochs=False)

    assert Position(12, NO_EPOCH) == state.log_end(T0)


ERRORS = [NOT_LEADER, FENCED, UNKNOWN_EPOCH, UNKNOWN_TOPIC, UNKNOWN_ID, INCONSISTENT_ID]


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_leaves_the_session_at_once(state: WatchState, code: int) -> None:
    """A refused partition leaves the session, so that its error does not answer every poll at once.
    It returns with metadata."""
    state.accept_reply(ONE, {T0: reply(-1, error=code)}, {})
    assert {T0: None} == state.take_position_changes(ONE)
    assert (0, {T0}, {T0}) == (state.partition_count(ONE), state.leaderless, state.changed)
    assert state.leader(T0) is None
    assert state.log_end(T0) is None

    assert [] == metadata_update(state, view(Leader(broker=ONE, epoch=3)))

    assert {T0: position(10)} == state.take_position_changes(ONE)
    assert set() == state.leaderless


def test_a_hint_is_followed(state: WatchState) -> None:
    """A newer leader in the reply gets the partition without metadata. The log end counts once that
    leader has confirmed it."""
    state.accept_reply(ONE, {T0: reply(-1, error=NOT_LEADER, leader=(2, 4))}, {2: TWO})

    assert ({T0: None}, {T0: position(10, 4)}) == (
        state.take_position_changes(ONE),
        state.take_position_changes(TWO),
    )
    assert ([TWO], set()) == (state.brokers(), state.leaderless)
    assert state.log_end(T0) is None

    state.accept_reply(TWO, {T0: reply(10)}, {})
    assert Position(10, 3) == state.log_end(T0)  # known under epoch 3, and still there

    state.accept_reply(TWO, {T0: reply(11)}, {})
    assert Position(11, 4) == state.log_end(T0)


def test_a_leader_that_has_nothing_new_confirms_by_its_silence(state: WatchState) -> None:
    """A leader with a new epoch keeps its session. It leaves a partition out of its reply if its
    log end and log start are as before. So the known log end counts again. It does not while the
    request has yet to leave, or after a reply of a broker that throttles or has no room."""
    metadata_update(state, view(Leader(broker=ONE, epoch=4)))
    state.changed.clear()
    state.accept_reply(ONE, {}, {})
    assert state.log_end(T0) is None
    assert {T0: position(10, 4)} == state.take_position_changes(ONE)
    state.accept_reply(ONE, {}, {}, omits_unchanged=False)
    assert state.log_end(T0) is None

    state.accept_reply(ONE, {}, {})

    assert Position(10, 3) == state.log_end(T0)
    assert {T0} == state.changed


@pytest.mark.parametrize("hint", [(2, 3), (2, 2), (3, 9)])
def test_an_old_hint_is_not(state: WatchState, hint: tuple[int, int]) -> None:
    """kfetch ignores a hint without a newer epoch or without an address."""
    state.accept_reply(ONE, {T0: reply(-1, error=NOT_LEADER, leader=hint)}, {2: TWO})

    assert {T0} == state.leaderless


def test_out_of_range_waits_for_a_position(state: WatchState) -> None:
    """A partition out of range does not return with metadata, but with a new position, even a lower
    one."""
    state.accept_reply(ONE, {T0: reply(-1, error=OUT_OF_RANGE)}, {})
    metadata_update(state, view(Leader(broker=ONE, epoch=3)))
    assert ({T0: None}, {T0}) == (state.take_position_changes(ONE), state.out_of_range)

    state.watch_from(T0, state.leader(T0), Position(4, 3), Position(0, 3))

    assert ({T0: position(4)}, set()) == (state.take_position_changes(ONE), state.out_of_range)
    assert Position(4, 3) == state.log_end(T0)


def refuse(state: WatchState, now_s: float, broker: Broker = ONE, epoch: int = 3) -> None:
    """The leader refuses t-0 with a retriable error, and metadata names the same leader again."""
    state.accept_reply(broker, {T0: reply(-1, error=SERVER_ERROR)}, {}, now_s)
    metadata_update(state, view(Leader(broker=broker, epoch=epoch)))
    state.take_position_changes(broker)


def test_a_refusal_that_lasts_is_kept(state: WatchState) -> None:
    """The state keeps how long one leader refuses a partition, and with which error. Two refusals
    prove nothing: hours may lie between them. A good reply ends it."""
    for now_s, lasted_s in ((100.0, 0.0), (300.0, 0.0), (301.0, 201.0)):
        refuse(state, now_s)
        assert lasted_s == state.refusals[T0].lasted_s

    assert "watching t-0 at broker 1 (h:1): the broker answered UNKNOWN_SERVER_ERROR (-1)" in str(
        state.refusals[T0].error
    )
    state.accept_reply(ONE, {T0: reply(10)}, {}, 302.0)
    assert {} == state.refusals


def test_an_election_is_no_lasting_refusal(state: WatchState) -> None:
    """A newer leader, a partition without a leader, and one that is gone start again."""
    for now_s in (100.0, 110.0, 120.0):
        refuse(state, now_s)
    metadata_update(state, view(Leader(broker=TWO, epoch=4)))
    state.take_position_changes(TWO)
    refuse(state, 130.0, TWO, epoch=4)
    assert (130.0, 0.0) == (state.refusals[T0].since_s, state.refusals[T0].lasted_s)

    metadata_update(state, view(None))
    assert {} == state.refusals

    metadata_update(state, view(Leader(broker=ONE, epoch=5)))
    state.take_position_changes(ONE)
    refuse(state, 140.0, epoch=5)
    state.update_metadata(view(), [])
    assert {} == state.refusals


def test_permanent_error(state: WatchState) -> None:
    """The driver can raise a permanent error, and its partition leaves the session."""
    state.accept_reply(ONE, {T0: reply(-1, error=UNAUTHORIZED)}, {})

    assert state.permanent_error is not None
    assert ("t", 0, 29) == (
        state.permanent_error.topic,
        state.permanent_error.partition,
        state.permanent_error.code,
    )
    assert "watching t-0 at broker 1 (h:1): the broker answered TOPIC_AUTH" in str(
        state.permanent_error
    )
    assert {T0: None} == state.take_position_changes(ONE)


def test_a_reply_to_an_older_position_is_ignored(state: WatchState) -> None:
    """A reply that was in flight when the position changed does not move the partition."""
    state.watch_from(T0, Leader(broker=ONE, epoch=3), Position(4, 3), Position(0, 3))
    assert 0 == state.accept_reply(ONE, {T0: reply(50)}, {})
    assert Position(4, 3) == state.log_end(T0)

    state.take_position_changes(ONE)
    state.accept_reply(ONE, {T0: reply(50)}, {})

    assert Position(50, 3) == state.log_end(T0)


def test_a_reply_of_the_former_leader_is_ignored(state: WatchState) -> None:
    """After a move, the state ignores the old leader's last reply."""
    metadata_update(state, view(Leader(broker=TWO, epoch=4)))
    state.take_position_changes(ONE)

    assert 0 == state.accept_reply(ONE, {T0: reply(50)}, {})
    assert state.log_end(T0) is None


@pytest.mark.parametrize(
    ("led", "expected"),
    [
        (Leader(broker=TWO, epoch=2), ({}, {})),  # metadata that lags behind
        (Leader(broker=ONE, epoch=3), ({}, {})),
        (Leader(broker=ONE, epoch=4), ({T0: position(10, 4)}, {})),
        (Leader(broker=TWO, epoch=4), ({T0: None}, {T0: position(10, 4)})),
        (None, ({T0: None}, {})),
    ],
)
def test_metadata_moves_leaders(
    state: WatchState, led: Leader | None, expected: tuple[object, object]
) -> None:
    """Metadata with a newer epoch moves a partition; older metadata does not."""
    assert [] == metadata_update(state, view(led))

    assert expected == (state.take_position_changes(ONE), state.take_position_changes(TWO))
    assert (expected != ({}, {})) == (T0 in state.changed)


def test_partitions_come_and_go(state: WatchState) -> None:
    """New partitions need a log end. Gone partitions leave their session."""
    led = Leader(broker=ONE, epoch=3)
    assert [T1] == metadata_update(state, view(led, led))
    assert [T1] == metadata_update(state, view(led, led))  # until it has a position

    state.update_metadata(view(led), [])

    assert {T0: None} == state.take_position_changes(ONE)
    assert (False, {T0}) == (state.exists(T0), state.changed)
    assert {} == state.topic_ids


def test_a_recreated_topic_needs_new_log_ends(state: WatchState) -> None:
    """With another topic id the partition leaves its session and waits for a log end."""
    led = Leader(broker=ONE, epoch=0)
    assert [T0] == metadata_update(state, view(led, topic_id=NEW_ID))
    assert not state.exists(T0)

    state.watch_from(T0, led, Position(2, 0), Position(0, 0))

    assert {T0: position(2, 0, NEW_ID)} == state.take_position_changes(ONE)


def test_topics_without_ids() -> None:
    """Topics of old brokers have the zero id, and no other."""
    state, led = WatchState(), Leader(broker=ONE, epoch=-1)
    assert [T0] == metadata_update(state, view(led, topic_id=NO_TOPIC_ID))
    state.watch_from(T0, led, Position(2), Position(0))
    assert [] == metadata_update(state, view(led, topic_id=NO_TOPIC_ID))

    assert {T0: position(2, -1, NO_TOPIC_ID)} == state.take_position_changes(ONE)
    assert {} == state.topic_ids


class LittleLog:
    """One partition that grows and changes leaders, and two sessions that watch it."""

    def __init__(self) -> None:
        self.state = watching()
        self.end, self.leader = 10, Leader(broker=ONE, epoch=3)
        self.held: dict[Broker, dict[TopicPartition, FetchPosition]] = {ONE: {}, TWO: {}}
        self.told: dict[Broker, int | None] = {}
        """The log end as each broker's session told it last."""

    def append(self, broker: Broker) -> None:
        """One more record."""
        self.end += 1

    def elect(self, broker: Broker) -> None:
        """Another leader, or the same again."""
        self.leader = Leader(broker=broker, epoch=self.leader.epoch + 1)

    def poll(self, broker: Broker) -> None:
        """A broker receives its position changes and answers. It leaves out what it told before."""
        for tp, position in self.state.take_position_changes(broker).items():
            if position is not None:
                self.held[broker][tp] = position
            else:
                self.held[broker].pop(tp, None)
                self.told[broker] = None
        for tp, position_held in list(self.held[broker].items()):
            good = self.leader == Leader(broker=broker, epoch=position_held.leader_epoch)
            partition_reply = reply(self.end) if good else reply(-1, error=NOT_LEADER)
            is_new = not good or self.told.get(broker) != self.end
            self.told[broker] = self.end if good else None
            self.state.accept_reply(broker, {tp: partition_reply} if is_new else {}, {})

    def metadata(self, broker: Broker) -> None:
        """Metadata names the leader."""
        metadata_update(self.state, view(self.leader))

    def election(self, broker: Broker) -> None:
        """Metadata names no leader."""
        metadata_update(self.state, view(None))


EVENTS = [LittleLog.append, LittleLog.elect, LittleLog.poll, LittleLog.metadata, LittleLog.election]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from([ONE, TWO])), max_size=40))
@example([(LittleLog.poll, ONE), (LittleLog.elect, ONE), (LittleLog.metadata, ONE)])
@examples(35)
def test_any_history_ends_at_the_log_end(history: list[tuple[object, Broker]]) -> None:
    """In any order of events, the known log end never lies past the log. After the last event it is
    the log's end, and only the leader's session holds the partition."""
    log = LittleLog()
    for event, broker in history:
        event(log, broker)
        known = log.state.log_end(T0)
        assert known is None or known.offset <= log.end
    for event in [LittleLog.poll, LittleLog.metadata, LittleLog.poll, LittleLog.poll]:
        event(log, ONE)
        event(log, TWO)

    assert log.end == log.state.log_end(T0).offset
    assert [log.leader.broker] == [broker for broker in (ONE, TWO) if log.held[broker]]
