"""Faults planted on purpose, to see whether the simulation finds them. Each is a context manager.

Most of them were in kfetch once. The simulation of jobs is worth its time while it finds each of
them within a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

from cronsim import CronSim

from kfetch.storage.lease import LENGTH_S, Sight
from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.config import Job
from kfetch_jobs.config.models import Restart
from kfetch_jobs.config.trigger import Trigger
from kfetch_jobs.offsets import plan
from kfetch_jobs.offsets.target import PartitionOffsets
from kfetch_jobs.run import delta_sink, letters_table
from kfetch_jobs.run.batch_counts import BatchCounts, Letters
from kfetch_jobs.run.tables import Check, unfenced
from kfetch_jobs.supervise import state_machine, status_reader
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def cron_time_that_has_passed() -> Iterator[None]:
    """In the hour that comes twice, the next time of a daily job may have passed: it loops."""

    def next_time(self: Trigger, now: float) -> float:
        start = datetime.fromtimestamp(now, ZoneInfo(self.timezone or "UTC"))
        return float(next(CronSim(str(self.cron), start)).timestamp())

    with patch.object(Trigger, "next_time", next_time):
        yield


@contextmanager
def clock_steps_unseen() -> Iterator[None]:
    """Nobody looks whether the clock was set: steps end jobs, or delay them for days."""
    with patch.object(WallClock, "step_s", lambda _: 0.0):
        yield


@contextmanager
def orders_without_end() -> Iterator[None]:
    """The supervisor carries an order out, however old it is."""
    add_order, reply_to = Store.add_order, Store.reply_to
    told: dict[int, str] = {}

    def without_end(self: Store, *arguments: Any) -> int:
        order = add_order(self, *arguments[:3])
        told.pop(order, None)
        return order

    def reply(self: Store, order: int) -> str | None:
        return told.get(order) or reply_to(self, order)

    with (
        patch.object(Store, "add_order", without_end),
        patch.object(
            Store, "withdraw", lambda _, orders, text: told.update(zip(orders, repeat(text)))
        ),
        patch.object(Store, "reply_to", reply),
    ):
        yield


@contextmanager
def runs_of_the_predecessor_forgotten() -> Iterator[None]:
    """The supervisor forgets runs that its predecessor has left."""
    with patch.object(Store, "open_runs", lambda _: []):
        yield


@contextmanager
def no_back_off() -> Iterator[None]:
    """A failed job starts again at once."""
    with patch.object(Restart, "pause_s", lambda *_: 0.0):
        yield


@contextmanager
def stopped_job_starts() -> Iterator[None]:
    """A new supervisor starts stopped jobs."""
    initial_state = state_machine.initial_state

    def anew(file: object, now: float, *_: object) -> object:
        return initial_state(file, now)  # type: ignore[arg-type]

    with patch.object(state_machine, "initial_state", anew):
        yield


@contextmanager
def hung_round_counts_from_its_beginning() -> Iterator[None]:
    """What a round reads after it hung seems as old as the round."""
    with patch.object(WallClock, "late", lambda _, now: now):
        yield


@contextmanager
def clock_set_back_unseen() -> Iterator[None]:
    """A new supervisor does not see that the clock was set back before it: it hears no run."""
    with patch.object(Supervisor, "_set_back_s", lambda *_: 0.0):
        yield


@contextmanager
def last_lag_counts_for_ever() -> Iterator[None]:
    """Status takes the last lag that a run has reported for its lag now, however old it is."""
    with patch.object(status_reader, "OLD_S", float("inf")):
        yield


PLANTED: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "clock-set-back-unseen": clock_set_back_unseen,
    "last-lag-counts-for-ever": last_lag_counts_for_ever,
    "cron-time-that-has-passed": cron_time_that_has_passed,
    "clock-steps-unseen": clock_steps_unseen,
    "orders-without-end": orders_without_end,
    "runs-of-the-predecessor-forgotten": runs_of_the_predecessor_forgotten,
    "no-back-off": no_back_off,
    "stopped-job-starts": stopped_job_starts,
    "hung-round-counts-from-its-beginning": hung_round_counts_from_its_beginning,
}
"""Faults of the supervisor, by name."""


@contextmanager
def rows_before_letters() -> Iterator[None]:
    """Rows commit before dead letters."""

    def with_letters(
        job: Job, counts: BatchCounts, check: Check, parts: Callable[..., Any], *, stateful: bool
    ) -> delta_sink.Write:
        put_letters: Callable[..., Letters] = partial(delta_sink.repeat_letters, stateful=stateful)

        def write(batch: DataFrame, query: str, number: int) -> None:
            nonlocal put_letters
            rows, places = parts(batch)
            delta_sink._write_rows(job, rows, query, number, check=check)
            counts.put(number, put_letters(job, places, query, number, check))
            put_letters = delta_sink.write_letters

        return write

    with patch.object(delta_sink, "_with_letters", with_letters):
        yield


@contextmanager
def letters_of_a_half_written_batch_stay() -> Iterator[None]:
    """Delta skips the dead letters of a micro-batch that comes again with another decoding."""

    def repeat(
        job: Job, places: DataFrame, query: str, number: int, check: Check, *, stateful: bool
    ) -> Letters:
        return letters_table.write_letters(job, places, query, number, check)

    with patch.object(delta_sink, "repeat_letters", repeat):
        yield


PLANTED_IN_LETTERS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "rows-before-letters": rows_before_letters,
    "letters-of-a-half-written-micro-batch": letters_of_a_half_written_batch_stay,
}
"""Faults of the writers of a micro-batch."""


@contextmanager
def move_done_before_its_micro_batch() -> Iterator[None]:
    """A move is recorded as done, although the checkpoint has not moved yet."""
    create = backups.create_backup

    def done(*arguments: Any) -> backups.Backup:
        return create(*arguments).record_stage(backups.Stage.DONE)

    with patch.object(backups, "create_backup", done):
        yield


@contextmanager
def replay_leaves_rows_of_the_planned_batch() -> Iterator[None]:
    """A replay takes the last committed micro-batch for the table's end."""
    with patch.object(plan, "_range_after", _reading_to_the_log_end):
        yield


def _reading_to_the_log_end(
    at: PartitionOffsets, after: int | None, planned_end: object
) -> OffsetRange:
    return OffsetRange(
        topic=at.tp.topic,
        partition=at.tp.partition,
        begin=at.before if after is None else after,
        end=at.before,
    )


@contextmanager
def commit_without_a_look() -> Iterator[None]:
    """The check of the lease is left out before a commit of rows."""
    write_rows = delta_sink._write_rows

    def unchecked(*arguments: Any, check: Check) -> None:
        write_rows(*arguments, check=unfenced)

    with patch.object(delta_sink, "_write_rows", unchecked):
        yield


@contextmanager
def waiter_of_jobs_without_patience() -> Iterator[None]:
    """A job takes a lease over that lay still for half of its time."""
    with patch.object(Sight, "ends_at", lambda self: self.at + LENGTH_S / 2):
        yield


PLANTED_IN_MOVES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "move-done-before-its-micro-batch": move_done_before_its_micro_batch,
    "rows-of-the-planned-micro-batch": replay_leaves_rows_of_the_planned_batch,
    "commit-without-a-look": commit_without_a_look,
    "waiter-of-jobs-without-patience": waiter_of_jobs_without_patience,
}
"""Faults of the moves of offsets."""

BY_KIND = {
    "supervision": PLANTED,
    "letters": PLANTED_IN_LETTERS,
    "moves": PLANTED_IN_MOVES,
}
