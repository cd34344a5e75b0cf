"""What commands ask of a supervisor: orders through its database, its end through a signal.

An order that finds no supervisor waits for the next one. ``down`` ends what a supervisor that was
killed has left behind, too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from kfetch_jobs.config import Project
from kfetch_jobs.config.yamlfile import suggestion
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.kafka.process import find
from kfetch_jobs.run import exit_report
from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.state_machine import JobState, Order, Phase
from kfetch_jobs.supervise.status_reader import supervisor_alive
from kfetch_jobs.supervise.store import Store, SupervisorRecord
from kfetch_jobs.supervise.supervisor import exit_report_file, run_process
from kfetch_jobs.supervise.supervisor_lock import lock_file
from kfetch_jobs.util.files import try_lock

__all__ = ["give_order", "shut_down", "wait_until_done"]

_TAKEN_WITHIN_S = 30.0
"""A supervisor looks for orders five times a second; a busy machine may be slow."""
_BEGUN_WITHIN_S = 2.0
"""Ten ticks of a supervisor; what is due and has not begun then has no room beside others."""
_LOOK_S = 0.1


def give_order(
    project: Project, store: Store, jobs: Sequence[str], order: Order
) -> Sequence[str] | None:
    """Give an order; what a supervisor that has done it says besides. None without one: then the
    order waits for the next.

    Raises what the supervisor says of an order that can't be done: ConfigError for a mistake in a
    job's file, else SupervisorError.
    """
    known = project.jobs()
    for name in jobs:
        if name not in known:
            raise ConfigError(f"there is no job {name}: {suggestion(name, known)}")
    asked = [store.add_order(name, order, time.time()) for name in jobs]
    if not supervisor_alive(store.last_supervisor()):
        return None
    _wait(
        lambda: all(store.reply_to(one) is not None for one in asked),
        _TAKEN_WITHIN_S,
        f"the supervisor has not taken the order within {_TAKEN_WITHIN_S:.0f} s: read its log",
    )
    answers = [OrderReply.from_text(store.reply_to(one) or "") for one in asked]
    refused = [answer for answer in answers if answer.exit_code]
    if refused:
        mistake = any(answer.exit_code == ConfigError.exit_code for answer in refused)
        error = ConfigError if mistake else SupervisorError
        raise error("; ".join(answer.said for answer in refused))
    return [answer.said for answer in answers if answer.said]


def wait_until_done(store: Store, jobs: Sequence[str], order: Order, timeout_s: float) -> None:
    """Wait until an order that was taken is done: what was to end has ended, after its micro-batch,
    and what was to begin goes. Raises SupervisorError after ``timeout_s``."""
    ends = order in (Order.STOP, Order.PAUSE)
    unfinished = partial(_running if ends else _ending, store, jobs)
    if not _came(lambda: not unfinished(), timeout_s):
        raise SupervisorError(f"still running after {timeout_s:g} s: {', '.join(unfinished())}")
    if not ends:
        _came(lambda: not any(map(_is_due, _states(store, jobs).values())), _BEGUN_WITHIN_S)


def _running(store: Store, jobs: Sequence[str]) -> list[str]:
    """Those with a process."""
    running = {run.job for run in store.open_runs()}
    return [name for name in jobs if name in running]


def _ending(store: Store, jobs: Sequence[str]) -> list[str]:
    """Those with a process that has been told to end."""
    states = _states(store, jobs)
    return [name for name, state in states.items() if state.phase is Phase.STOPPING]


def _states(store: Store, jobs: Sequence[str]) -> dict[str, JobState]:
    return {name: state for name, state in store.states().items() if name in jobs}


def _is_due(state: JobState) -> bool:
    return state.phase is Phase.WAITING and state.due_s is not None and state.due_s <= time.time()


def _came(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def _wait(condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    if not _came(condition, timeout_s):
        raise SupervisorError(otherwise)


def shut_down(project: Project, store: Store, *, timeout_s: float, now: bool = False) -> int:
    """End the supervisor and every job; how many jobs ran. Nothing of them is left afterwards.

    ``now`` does not wait for micro-batches.
    """
    runs = len(store.open_runs())
    incumbent = store.last_supervisor()
    if incumbent is not None and supervisor_alive(incumbent):
        _end(incumbent, timeout_s, signals=2 if now else 1)
    with try_lock(lock_file(project.storage)) as ours:
        if not ours:
            raise SupervisorError(f"{project.storage} has a supervisor again: try once more")
        _end_orphans(project, store, 0.0 if now else timeout_s)
        store.record_end(time.time())
    return runs


def _end(incumbent: SupervisorRecord, timeout_s: float, signals: int) -> None:
    """One SIGTERM ends jobs after their micro-batch, a second one at once."""
    for _ in range(signals):
        with suppress(ProcessLookupError):
            os.kill(incumbent.pid, signal.SIGTERM)
        time.sleep(_LOOK_S)  # two signals at one moment are one
    _wait(
        lambda: find(incumbent.pid, incumbent.process_started_s) is None,
        timeout_s,
        f"the supervisor (process {incumbent.pid}) is not down after {timeout_s:.0f} s: a job's "
        "micro-batch takes long; try again, or with --now",
    )


def _end_orphans(project: Project, store: Store, timeout_s: float) -> None:
    """Runs that a killed supervisor has left."""
    runs = store.open_runs()
    processes = [run_process(project.storage, run) for run in runs]
    for process in processes:
        process.end()
    deadline = time.monotonic() + timeout_s
    while any(process.alive for process in processes) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    for run, process in zip(runs, processes, strict=True):
        process.kill()
        word = exit_report_file(project.storage, run.job, run.id)
        told = exit_report.read_exit_report(word)
        kind, sentence = told.kind, told.sentence
        if kind in (ExitKind.STOPPED, ExitKind.KILLED):
            sentence = "by kfetch down, without a supervisor"
        now = time.time()
        store.end(run.id, now, kind, sentence, batches=told.batches, rows=told.rows)
        word.unlink(missing_ok=True)
