"""Where a partition is read: the rules of moves between leader and follower."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.fetch import replicas
from kfetch.fetch.arrivals import PartitionFailed, RangeHandedOn
from kfetch.fetch.progress import RangeProgress, ReplicaChoice
from kfetch.fetch.replicas import ReadReplicas
from kfetch.model import NO_TOPIC_ID, Broker, ClusterView, Leader, OffsetRange, TopicPartition
from kfetch.session.replies import NO_REPLICA, FetchReply, PartitionReply

PERIOD_S = 30.0
T0 = TopicPartition("t", 0)
ONE, TWO, THREE = (Broker(node_id=n, host="h", port=n) for n in (1, 2, 3))


class Metadata:
    """Metadata that knows all brokers."""

    def announce(self, topic: str) -> None:
        pass

    def view(self, topics: object, since: float, deadline: float) -> ClusterView:
        return ClusterView(brokers={1: ONE, 2: TWO, 3: THREE}, topics={})


class Partition:
    """A partition that is read in some rack, and the events of its ranges."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.table = ReadReplicas("r", PERIOD_S)

    def happens(self, event: str, follower: Broker = TWO, *, epoch: int = 5) -> None:
        """One thing that a leader of this epoch, or a follower, does with a range."""
        progress = self.progress(epoch)
        with self._at_now():
            match event:
                case "names" | "forces":
                    move = RangeHandedOn(
                        progress=progress, follower_id=follower.node_id, forced=event == "forces"
                    )
                    assert self.table.follow(move, Metadata(), float("inf")) is None
                case "keeps":
                    self.table.stay_at_leader(progress)
                case "fails":
                    progress.choice = ReplicaChoice(
                        leader=progress.known_leader, follower=follower, until=0.0
                    )
                    self.table.return_to_leader(progress)

    def choice(self, *, epoch: int = 5, leader: Broker = ONE) -> ReplicaChoice | None:
        """Where the next range is read; None: its leader is asked."""
        progress = self.progress(epoch, leader)
        with self._at_now():
            self.table.place(progress)
        return progress.choice

    def _at_now(self) -> AbstractContextManager[object]:
        return patch.object(replicas, "time", SimpleNamespace(monotonic=lambda: self.now))

    def progress(self, epoch: int, leader: Broker = ONE) -> RangeProgress:
        """A range of the partition, by the metadata of an epoch."""
        item = OffsetRange(
            tp=T0, topic_id=NO_TOPIC_ID, start=0, end=9, leader_epoch=epoch, leader=leader
        )
        return RangeProgress.of(item)


Event = tuple[str] | tuple[str, Broker]
STORIES: list[tuple[list[Event], Broker]] = [
    ([("names", TWO)], TWO),
    ([("names", TWO), ("names", THREE)], THREE),
    ([("keeps",), ("names", TWO)], ONE),  # an answer to an older question
    ([("keeps",), ("forces", TWO)], TWO),
    ([("keeps",)], ONE),
    ([("names", TWO), ("keeps",)], ONE),
    ([("fails", TWO)], ONE),
    ([("names", TWO), ("fails", TWO)], ONE),
    ([("keeps",), ("fails", TWO)], ONE),
    ([("names", THREE), ("fails", TWO)], THREE),  # the leader has named another one since
]


@pytest.mark.parametrize(("events", "broker"), STORIES)
def test_events(events: list[Event], broker: Broker) -> None:
    """Each event has one next choice, which counts for a period."""
    partition = Partition()
    for event in events:
        partition.happens(*event)
    choice = partition.choice()

    assert choice
    assert broker == (choice.follower or ONE)
    assert partition.now + PERIOD_S == choice.until


@pytest.mark.parametrize("event", [("names", TWO), ("forces", TWO), ("keeps",), ("fails", TWO)])
def test_a_deposed_leader_decides_nothing(event: Event) -> None:
    """What a leader of an older epoch said changes no choice of its successor."""
    partition = Partition()
    partition.happens("names", THREE, epoch=6)
    choice = partition.choice(epoch=6)
    partition.happens(*event)

    assert choice
    assert choice == partition.choice(epoch=6)


@pytest.mark.parametrize(
    ("leader", "epoch", "after_s", "holds"),
    [
        (ONE, 5, 0.0, True),
        (ONE, 5, 29.9, True),
        (ONE, 5, 30.0, False),
        (ONE, 6, 0.0, False),
        (TWO, 5, 0.0, False),
        (Broker(node_id=1, host="elsewhere", port=7), 5, 0.0, True),
    ],
)
def test_how_long_a_choice_holds(leader: Broker, epoch: int, after_s: float, holds: bool) -> None:
    """A choice holds until its end, and for the leader that made it, wherever that one listens."""
    partition = Partition()
    partition.happens("names", TWO)
    partition.now += after_s

    assert holds is (partition.choice(epoch=epoch, leader=leader) is not None)


@pytest.mark.parametrize(
    ("first", "event", "follower"),
    [(("keeps",), ("names", THREE), THREE), (("names", TWO), ("fails", THREE), None)],
)
def test_a_choice_that_is_over_keeps_nothing(
    first: Event, event: Event, follower: Broker | None
) -> None:
    """After its period a choice for the leader, or for another follower, is in nobody's way."""
    partition = Partition()
    partition.happens(*first)
    partition.now += PERIOD_S
    partition.happens(*event)
    choice = partition.choice()

    assert choice
    assert follower == choice.follower


EVENTS = st.one_of(
    st.tuples(st.just("names"), st.sampled_from([TWO, THREE])),
    st.tuples(st.just("keeps")),
    st.tuples(st.just("fails"), st.sampled_from([TWO, THREE])),
)
STORY = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2), EVENTS), max_size=60)


@given(STORY)
def test_no_flip_flop(story: list[tuple[float, int, Event]]) -> None:
    """After a partition has left a follower, it stays at the same leader for a whole period."""
    partition = Partition()
    left_at: dict[int, float] = {}
    for pause_s, epoch, event in story:
        partition.now += pause_s
        before = partition.choice(epoch=epoch)
        partition.happens(*event, epoch=epoch)
        choice = partition.choice(epoch=epoch)
        if choice is not None and choice.follower and choice != before:
            assert partition.now >= left_at.get(epoch, 0.0) + PERIOD_S
        if event[0] == "fails" and choice is not None and choice != before:
            left_at[epoch] = partition.now


@given(STORY)
def test_each_choice_ends(story: list[tuple[float, int, Event]]) -> None:
    """No choice lasts longer than a period after the last event: then the leader is asked again."""
    partition = Partition()
    for pause_s, epoch, event in story:
        partition.now += pause_s
        partition.happens(*event, epoch=epoch)
    partition.now += PERIOD_S

    assert [None] * 3 == [partition.choice(epoch=epoch) for epoch in range(3)]


@given(STORY)
def test_epochs_of_choices_grow(story: list[tuple[float, int, Event]]) -> None:
    """The choice never falls back to an older leader's, until it is over."""
    partition = Partition()
    newest = Leader(broker=ONE, epoch=-1)
    until = 0.0
    for pause_s, epoch, event in story:
        partition.now += pause_s
        newest = newest if partition.now < until else Leader(broker=ONE, epoch=-1)
        partition.happens(*event, epoch=epoch)
        held = [c for e in range(3) if (c := partition.choice(epoch=e)) is not None]
        assert len(held) <= 1
        for choice in held:
            assert choice.leader.epoch >= newest.epoch
            newest, until = choice.leader, choice.until


@pytest.mark.parametrize(
    ("error", "diverging", "reason"),
    [(78, None, "OFFSET_NOT_AVAILABLE (78)"), (0, (4, 7), "its log diverges")],
)
def test_why_a_follower_is_left(
    error: int, diverging: tuple[int, int] | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the error of a follower, or its divergence, which has no code."""
    reply = PartitionReply(
        key=("t", 0),
        error=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging=diverging,
        leader=None,
        aborted=(),
        preferred_read_replica=NO_REPLICA,
        records=memoryview(b""),
    )
    whole = FetchReply(
        version=13, throttle_ms=0, error=0, session_id=1, partitions=(reply,), endpoints={}
    )
    progress = Partition().progress(5)
    progress.choice = ReplicaChoice(leader=progress.known_leader, follower=TWO, until=0.0)
    caplog.set_level("INFO")
    failed = PartitionFailed(progress=progress, partition=reply, reply=whole)

    assert ReadReplicas("r").leave(failed) is None
    assert f"t-0: broker 2 (h:2) can't be read as a follower: {reason}" in caplog.messages
