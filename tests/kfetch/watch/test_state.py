"""What the driver knows of its partitions: a table of replies, and any history of a log."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfetch.model import (
    NO_TOPIC_ID,
    Broker,
    ClusterView,
    FetchPosition,
    Leader,
    Topic,
    TopicPartition,
)
from kfetch.offsets import Position
from kfetch.replies import PartitionReply
from kfetch.watch.state import WatchState

ONE, TWO = (Broker(node_id=n, host="h", port=n) for n in (1, 2))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID, NEW_ID = UUID(int=7), UUID(int=8)
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, UNAUTHORIZED = 1, 3, 6, 29
FENCED, UNKNOWN_EPOCH, UNKNOWN_ID, INCONSISTENT_ID = 74, 75, 100, 103


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
    """What a session is told of a partition."""
    return FetchPosition(topic_id=topic_id, offset=offset, max_bytes=1, leader_epoch=epoch)


def follow(state: WatchState, found: ClusterView) -> list[TopicPartition]:
    """Take metadata, all of its partitions subscribed."""
    return state.update_metadata(found, [TopicPartition("t", p) for p in found.topics["t"].leaders])


@pytest.fixture
def state() -> WatchState:
    """t-0 at broker 1, known to end at 10 under epoch 3; nothing waits to be told or sent."""
    made = watching()
    made.take_position_changes(ONE)
    made.changed.clear()
    return made


def watching(isolation_level: int = 0) -> WatchState:
    """The same, fresh."""
    made = WatchState(isolation_level=isolation_level)
    led = Leader(broker=ONE, epoch=3)
    assert [T0] == follow(made, view(led))
    made.watch_from(T0, led, Position(10, 3), 0)
    return made


def test_placing_is_an_order() -> None:
    """A partition that is placed enters its leader's session at its log end."""
    made = watching()

    assert {T0} == made.changed
    assert {T0: position(10)} == made.take_position_changes(ONE)
    assert {} == made.take_position_changes(ONE)


MOVES: list[tuple[int, PartitionReply, Position, bool, bool]] = [
    # isolation level, reply, end after it, whether it is an order, whether it is news
    (0, reply(10), Position(10, 3), False, False),
    (0, reply(12), Position(12, 3), True, True),
    (0, reply(12, stable=11), Position(12, 3), True, True),
    (1, reply(12, stable=11), Position(11, 3), True, True),
    (1, reply(12, stable=10), Position(10, 3), False, False),
    (0, reply(8), Position(10, 3), False, False),
    (0, reply(10, start=4), Position(10, 3), False, True),
    (0, reply(-1), Position(10, 3), False, False),
]


@pytest.mark.parametrize(("level", "told", "end", "ordered", "news"), MOVES)
def test_replies_move_the_end(
    level: int, told: PartitionReply, end: Position, ordered: bool, news: bool
) -> None:
    """The end is the high watermark, under read_committed the last stable offset, and never goes
    back; a log start that moved is news, but no order."""
    state = watching(level)
    state.take_position_changes(ONE)
    state.changed.clear()
    moved = state.accept_reply(ONE, {T0: told}, {})

    assert end == state.log_end(T0)
    assert ordered == (T0 in state.take_position_changes(ONE)) == bool(moved)
    assert news == (T0 in state.changed)
    assert told.log_start_offset == state.log_start(T0)


ERRORS = [NOT_LEADER, FENCED, UNKNOWN_EPOCH, UNKNOWN_TOPIC, UNKNOWN_ID, INCONSISTENT_ID]


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_leaves_the_session_at_once(state: WatchState, code: int) -> None:
    """A partition that is refused is forgotten, so that its error does not wake every poll; it
    comes back with metadata."""
    state.accept_reply(ONE, {T0: reply(-1, error=code)}, {})
    assert {T0: None} == state.take_position_changes(ONE)
    assert (0, {T0}, {T0}) == (state.partition_count(ONE), state.leaderless, state.changed)
    assert state.leader(T0) is None
    assert state.log_end(T0) is None

    assert [] == follow(state, view(Leader(broker=ONE, epoch=3)))

    assert {T0: position(10)} == state.take_position_changes(ONE)
    assert set() == state.leaderless


def test_a_hint_is_followed(state: WatchState) -> None:
    """A newer leader that the reply names takes the partition over, without metadata; its log
    counts once it has answered."""
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


@pytest.mark.parametrize("hint", [(2, 3), (2, 2), (3, 9)])
def test_an_old_hint_is_not(state: WatchState, hint: tuple[int, int]) -> None:
    """A hint without a newer epoch, or without an address, leads nowhere."""
    state.accept_reply(ONE, {T0: reply(-1, error=NOT_LEADER, leader=hint)}, {2: TWO})

    assert {T0} == state.leaderless


def test_out_of_range_waits_for_a_position(state: WatchState) -> None:
    """Metadata does not bring back a partition whose log is shorter than was known: a position
    does, even a lower one."""
    state.accept_reply(ONE, {T0: reply(-1, error=OUT_OF_RANGE)}, {})
    follow(state, view(Leader(broker=ONE, epoch=3)))
    assert ({T0: None}, {T0}) == (state.take_position_changes(ONE), state.out_of_range)

    state.watch_from(T0, state.leader(T0), Position(4, 3), 0)

    assert ({T0: position(4)}, set()) == (state.take_position_changes(ONE), state.out_of_range)
    assert Position(4, 3) == state.log_end(T0)


def test_what_no_retry_mends(state: WatchState) -> None:
    """An error that can't heal is kept for the driver to raise, and its partition forgotten."""
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


def test_a_reply_to_an_older_order_says_nothing(state: WatchState) -> None:
    """A partition that was placed anew while a poll was in flight is not moved by its reply."""
    state.watch_from(T0, Leader(broker=ONE, epoch=3), Position(4, 3), 0)
    assert 0 == state.accept_reply(ONE, {T0: reply(50)}, {})
    assert Position(4, 3) == state.log_end(T0)

    state.take_position_changes(ONE)
    state.accept_reply(ONE, {T0: reply(50)}, {})

    assert Position(50, 3) == state.log_end(T0)


def test_a_reply_of_the_former_leader_says_nothing(state: WatchState) -> None:
    """After a move the old leader's last reply is dropped."""
    follow(state, view(Leader(broker=TWO, epoch=4)))
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
    assert [] == follow(state, view(led))

    assert expected == (state.take_position_changes(ONE), state.take_position_changes(TWO))
    assert (expected != ({}, {})) == (T0 in state.changed)


def test_partitions_come_and_go(state: WatchState) -> None:
    """New partitions are asked to be placed; gone ones leave their session."""
    led = Leader(broker=ONE, epoch=3)
    assert [T1] == follow(state, view(led, led))
    assert [T1] == follow(state, view(led, led))  # until it has a position

    state.update_metadata(view(led), [])

    assert {T0: None} == state.take_position_changes(ONE)
    assert (False, {T0}) == (T0 in state, state.changed)
    assert {} == state.topic_ids


def test_a_recreated_topic_is_placed_anew(state: WatchState) -> None:
    """Another topic id: the partition leaves under the old id and waits for a position."""
    led = Leader(broker=ONE, epoch=0)
    assert [T0] == follow(state, view(led, topic_id=NEW_ID))
    assert T0 not in state

    state.watch_from(T0, led, Position(2, 0), 0)

    assert {T0: position(2, 0, NEW_ID)} == state.take_position_changes(ONE)


def test_topics_without_ids() -> None:
    """Topics of old brokers have the zero id, and no other."""
    state, led = WatchState(), Leader(broker=ONE, epoch=-1)
    assert [T0] == follow(state, view(led, topic_id=NO_TOPIC_ID))
    state.watch_from(T0, led, Position(2), 0)
    assert [] == follow(state, view(led, topic_id=NO_TOPIC_ID))

    assert {T0: position(2, -1, NO_TOPIC_ID)} == state.take_position_changes(ONE)
    assert {} == state.topic_ids


class LittleLog:
    """One partition that grows and changes leaders, and two sessions that watch it."""

    def __init__(self) -> None:
        self.state = watching()
        self.end, self.leader = 10, Leader(broker=ONE, epoch=3)
        self.held: dict[Broker, dict[TopicPartition, FetchPosition]] = {ONE: {}, TWO: {}}

    def append(self, broker: Broker) -> None:
        """One more record."""
        self.end += 1

    def elect(self, broker: Broker) -> None:
        """Another leader, or the same again."""
        self.leader = Leader(broker=broker, epoch=self.leader.epoch + 1)

    def poll(self, broker: Broker) -> None:
        """A broker takes its orders and answers."""
        for tp, wanted in self.state.take_position_changes(broker).items():
            self.held[broker].pop(tp, None)
            if wanted is not None:
                self.held[broker][tp] = wanted
        for tp, stands in list(self.held[broker].items()):
            good = self.leader == Leader(broker=broker, epoch=stands.leader_epoch)
            told = reply(self.end) if good else reply(-1, error=NOT_LEADER)
            self.state.accept_reply(broker, {tp: told}, {})

    def metadata(self, broker: Broker) -> None:
        """The leader is told."""
        follow(self.state, view(self.leader))

    def election(self, broker: Broker) -> None:
        """Metadata of a moment without a leader."""
        follow(self.state, view(None))


EVENTS = [LittleLog.append, LittleLog.elect, LittleLog.poll, LittleLog.metadata, LittleLog.election]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from([ONE, TWO])), max_size=40))
@settings(max_examples=60)
def test_any_history_is_known_in_the_end(history: list[tuple[object, Broker]]) -> None:
    """Whatever moves in whatever order: the end never lies past the log; and once all is quiet it
    is the log's, and only the leader's session holds the partition."""
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
