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
from kfetch_jobs.run import ending
from kfetch_jobs.run.kinds import Kind
from kfetch_jobs.supervise.answers import Answer
from kfetch_jobs.supervise.lock import lock_file
from kfetch_jobs.supervise.machine import Order, Phase, State
from kfetch_jobs.supervise.store import Incumbent, Store
from kfetch_jobs.supervise.supervisor import last_word, process_of
from kfetch_jobs.supervise.view import alive
from kfetch_jobs.util.files import claimed

__all__ = ["ask", "down", "wait"]

_TAKEN_WITHIN_S = 30.0
"""A supervisor looks for orders five times a second; a busy machine may be slow."""
_BEGUN_WITHIN_S = 2.0
"""Ten ticks of a supervisor; what is due and has not begun then has no room beside others."""
_LOOK_S = 0.1


def ask(project: Project, store: Store, jobs: Sequence[str], order: Order) -> Sequence[str] | None:
    """Give an order; what a supervisor that has done it says besides. None without one: then the
    order waits for the next.

    Raises what the supervisor says of an order that can't be done: ConfigError for a mistake in a
    job's file, else SupervisorError.
    """
    known = project.jobs()
    for name in jobs:
        if name not in known:
            raise ConfigError(f"there is no job {name}: {suggestion(name, known)}")
    asked = [store.ask(name, order, time.time()) for name in jobs]
    if not alive(store.incumbent()):
        return None
    _wait(
        lambda: all(store.answer_of(one) is not None for one in asked),
        _TAKEN_WITHIN_S,
        f"the supervisor has not taken the order within {_TAKEN_WITHIN_S:.0f} s: read its log",
    )
    answers = [Answer.from_text(store.answer_of(one) or "") for one in asked]
    refused = [answer for answer in answers if answer.exit_code]
    if refused:
        mistake = any(answer.exit_code == ConfigError.exit_code for answer in refused)
        error = ConfigError if mistake else SupervisorError
        raise error("; ".join(answer.said for answer in refused))
    return [answer.said for answer in answers if answer.said]


def wait(store: Store, jobs: Sequence[str], order: Order, timeout_s: float) -> None:
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


def _states(store: Store, jobs: Sequence[str]) -> dict[str, State]:
    return {name: state for name, state in store.states().items() if name in jobs}


def _is_due(state: State) -> bool:
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


def down(project: Project, store: Store, *, timeout_s: float, now: bool = False) -> int:
    """End the supervisor and every job; how many jobs ran. Nothing of them is left afterwards.

    ``now`` does not wait for micro-batches.
    """
    runs = len(store.open_runs())
    incumbent = store.incumbent()
    if incumbent is not None and alive(incumbent):
        _end(incumbent, timeout_s, signals=2 if now else 1)
    with claimed(lock_file(project.storage)) as ours:
        if not ours:
            raise SupervisorError(f"{project.storage} has a supervisor again: try once more")
        _end_orphans(project, store, 0.0 if now else timeout_s)
        store.leave_office(time.time())
    return runs


def _end(incumbent: Incumbent, timeout_s: float, signals: int) -> None:
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
    processes = [process_of(project.storage, run) for run in runs]
    for process in processes:
        process.end()
    deadline = time.monotonic() + timeout_s
    while any(process.alive for process in processes) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    for run, process in zip(runs, processes, strict=True):
        process.kill()
        word = last_word(project.storage, run.job, run.id)
        told = ending.read(word)
        kind, sentence = told.kind, told.sentence
        if kind in (Kind.STOPPED, Kind.KILLED):
            sentence = "by kfetch down, without a supervisor"
        now = time.time()
        store.end(run.id, now, kind, sentence, batches=told.batches, rows=told.rows)
        word.unlink(missing_ok=True)
