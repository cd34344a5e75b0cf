"""Faults planted on purpose: does the simulation find them? Each is a context manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kfetch.agent import __main__ as agent
from kfetch.agent.budget import Budget
from kfetch.agent.shared_broker import SharedBroker
from kfetch.fetch import broker_reader, recovery
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.model import OffsetRange
from kfetch.planner import plan_splits
from kfetch.session import transitions
from kfetch.session.metadata import FetchMetadata
from kfetch.session.transitions import RequestKind, SessionEvent
from kfetch.watch import batch_planning, driver
from kfetch.watch.driver import Driver
from kfetch.watch.initial_positions import bound_positions
from kfetch.watch.position_check import PositionCheck
from kfetch.watch.split_planning import SplitPlanning
from kfetch.watch.state import WatchState


def _keep(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return current


@contextmanager
def epoch_stands_still() -> Iterator[None]:
    """The epoch of a session does not advance."""
    moves: Any = transitions.MOVES
    with patch.dict(moves[RequestKind.CONTINUE], {SessionEvent.CONTINUED: _keep}):
        yield


@contextmanager
def leftover_records_unchecked() -> Iterator[None]:
    """Nobody checks whether a reply's records are those that the range asked for."""
    with patch.object(broker_reader, "_is_for", lambda progress, asked: True):
        yield


@contextmanager
def start_lost() -> Iterator[None]:
    """The end of batch 0 does not carry its start (``from``)."""
    end_offsets = Driver._end_offsets

    def without_start(self: Driver, *arguments: Any) -> Any:
        initial, self._initial = self._initial, None
        try:
            return end_offsets(self, *arguments)
        finally:
            self._initial = initial

    with patch.object(Driver, "_end_offsets", without_start):
        yield


@contextmanager
def refused_reply_acknowledges() -> Iterator[None]:
    """A refused or lost reply counts as the acknowledgement of the positions that were sent."""
    publish = Fetcher._publish_session_change

    def dropping(self: Fetcher, plan: Any, outcome: Any) -> None:
        if not outcome.accepted:
            self._pending_positions = {}
        publish(self, plan, outcome)

    with patch.object(Fetcher, "_publish_session_change", dropping):
        yield


@contextmanager
def truncation_unchecked() -> Iterator[None]:
    """The driver does not compare leader epochs after an election."""
    with patch.object(PositionCheck, "_check_epochs", lambda self, positions: None):
        yield


@contextmanager
def rewritten_range_unchecked() -> Iterator[None]:
    """A task reads on where the log was truncated after the range was planned."""
    with patch.object(RangeProgress, "end_before_truncation", lambda self, data, extent: None):
        yield


@contextmanager
def new_topic_as_truncated() -> Iterator[None]:
    """The history of a topic that was created again while its leader was asked counts as cut."""
    with patch.object(PositionCheck, "_of_same_topics", lambda self, ends, positions: ends):
        yield


@contextmanager
def expiry_unchecked() -> Iterator[None]:
    """The watch does not notice that a log starts later."""
    update = WatchState._update_offsets

    def without_start(self: WatchState, tp: Any, watched: Any, reply: Any, **named: Any) -> None:
        start = watched.log_start
        update(self, tp, watched, reply, **named)
        watched.log_start = start

    with patch.object(WatchState, "_update_offsets", without_start):
        yield


@contextmanager
def change_forgotten() -> Iterator[None]:
    """The driver forgets a changed partition that it does not plan at once."""
    take = WatchState.take_position_changes

    def forgetting(self: WatchState, broker: Any) -> Any:
        changes = take(self, broker)
        if len(changes) > 1:
            changes.pop(next(iter(changes)))
        return changes

    with patch.object(WatchState, "take_position_changes", forgetting):
        yield


@contextmanager
def cut_range_unread() -> Iterator[None]:
    """A range that has lost both its start and its end is not read at all."""
    readable_ends = SplitPlanning._readable_ends

    def unmoved(self: SplitPlanning, start: Any, valid: Any, end: Any) -> Any:
        ends = readable_ends(self, start, valid, end)
        was, now = start.positions, valid.positions
        return {
            tp: until
            for tp, until in ends.items()
            if until == end.positions[tp] or (tp in was and was[tp] == now.get(tp))
        }

    with patch.object(SplitPlanning, "_readable_ends", unmoved):
        yield


@contextmanager
def moves_extend_deadline() -> Iterator[None]:
    """The time of a range begins again when it moves to another broker."""
    since = SharedBroker.requested_since

    def without_asked(self: SharedBroker, progress: RangeProgress) -> float:
        return since(self, progress) + progress.asked_s

    with patch.object(SharedBroker, "requested_since", without_asked):
        yield


@contextmanager
def start_skips_a_record() -> Iterator[None]:
    """A new query starts one offset too late."""

    def late(*arguments: Any) -> Any:
        found = bound_positions(*arguments)
        return {tp: at._replace(offset=at.offset + 1) for tp, at in found.items()}

    with patch.object(driver, "bound_positions", late):
        yield


@contextmanager
def batch_skips_a_record() -> Iterator[None]:
    """A batch read leaves out the first record of each partition."""

    def late(name: str, ranges: Sequence[OffsetRange], planning: Any) -> Any:
        later = [replace(one, start=one.start + 1) for one in ranges if one.start + 1 < one.end]
        return plan_splits(name, later, planning)

    with patch.object(batch_planning, "plan_splits", late):
        yield


@contextmanager
def task_expiry_untold() -> Iterator[None]:
    """A task goes on behind expired records, and tells nobody. The driver does tell."""
    is_lost = recovery._is_lost

    def untold(progress: Any, answer: Any, *, fail: bool) -> bool:
        if answer.log_start > progress.offset:
            return True
        return is_lost(progress, answer, fail=fail)

    with patch.object(recovery, "_is_lost", untold):
        yield


@contextmanager
def expiry_told_nowhere() -> Iterator[None]:
    """Neither the watch nor a task tells that records have expired."""
    with expiry_unchecked(), task_expiry_untold():
        yield


@contextmanager
def reply_memory_returned_twice() -> Iterator[None]:
    """The memory of a reply returns to the agent's budget twice."""
    give_back = Budget._return_reply

    def twice(self: Budget, size: int) -> None:
        give_back(self, size)
        give_back(self, size)

    with patch.object(Budget, "_return_reply", twice):
        yield


@contextmanager
def reply_memory_kept() -> Iterator[None]:
    """The memory of a reply never returns to the agent's budget."""
    with patch.object(Budget, "_return_reply", lambda self, size: None):
        yield


@contextmanager
def agent_stays() -> Iterator[None]:
    """An agent does not notice that its executor has ended."""

    def of_itself(owner: Any) -> int:
        return agent.os.pidfd_open(agent.os.getpid())

    with patch.object(agent, "_open_pidfd", of_itself):
        yield


PLANTED: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    planted.__name__.replace("_", "-"): planted
    for planted in (
        epoch_stands_still,
        leftover_records_unchecked,
        start_lost,
        refused_reply_acknowledges,
        truncation_unchecked,
        rewritten_range_unchecked,
        new_topic_as_truncated,
        expiry_unchecked,
        change_forgotten,
        cut_range_unread,
        moves_extend_deadline,
        start_skips_a_record,
        batch_skips_a_record,
        task_expiry_untold,
        expiry_told_nowhere,
        reply_memory_returned_twice,
        reply_memory_kept,
        agent_stays,
    )
}
