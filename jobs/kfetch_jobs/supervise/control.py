"""Controls a supervisor: orders go through its database, a signal ends it.

If another host leads, orders go through the shared inbox. Without a supervisor, an order waits for
the next one. ``shut_down`` also ends the jobs that a killed supervisor has left behind.
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
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.leadership import read_lead
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.processes import RunProcess, end_together, find_by_mark
from kfetch_jobs.supervise.run_killer import record_own_end, report_interruption
from kfetch_jobs.supervise.run_process import remove_settings, run_mark, run_process
from kfetch_jobs.supervise.shared_orders import give_to_leader
from kfetch_jobs.supervise.status import LeadStatus
from kfetch_jobs.supervise.status_reader import orphans, supervisor_alive
from kfetch_jobs.supervise.store import Run, Store, SupervisorRecord
from kfetch_jobs.supervise.supervisor_lock import lock_file
from kfetch_jobs.util.files import try_lock
from kfetch_jobs.util.process import wait_until

_REPLY_WITHIN_S = 30.0
"""A supervisor reads its orders five times a second. A busy machine may be slow."""
_VALID_S = 25.0
"""The supervisor carries out no older order. So no order is carried out after its command has
reported a failure."""
_NOT_TAKEN = OrderReply(
    message=f"the supervisor has not taken the order within {_REPLY_WITHIN_S:.0f} s, and does not "
    "carry it out later: see kfetch logs",
    exit_code=1,
)
_STARTED_WITHIN_S = 2.0
"""Ten ticks of a supervisor. A due job that has not started by then waits for room."""
_POLL_S = 0.1
_ELSEWHERE_S = 1.0
"""The pause between looks if another host leads: each look is three requests to a store."""


def give_order(
    project: Project, store: Store, jobs: Sequence[str], order: Order
) -> Sequence[str] | None:
    """Give an order and return the supervisor's notices about it.

    Returns None if no supervisor runs; the order then waits for the next one. Raises the
    supervisor's refusal: ConfigError for a mistake in a job's file, else SupervisorError.
    """
    lead = read_lead(project, store)
    _check_names(project, store, jobs, order)
    if lead is None or lead.here:
        replies = _give_here(store, jobs, order)
    elif lead.leader is not None and lead.leader.trouble:
        raise SupervisorError(lead.problem)
    else:
        _check_reads_inbox(store.last_supervisor(), lead)
        replies = give_to_leader(project, jobs, order, wait=lead.elsewhere)
    if not replies:
        return None
    refusals = [reply for reply in replies if reply.exit_code]
    if refusals:
        mistake = any(reply.exit_code == ConfigError.exit_code for reply in refusals)
        error = ConfigError if mistake else SupervisorError
        raise error("; ".join(dict.fromkeys(reply.message for reply in refusals)))
    return [reply.message for reply in replies if reply.message]


def _check_reads_inbox(supervisor: SupervisorRecord | None, lead: LeadStatus) -> None:
    """Raises SupervisorError if this host's supervisor neither leads nor waits for the lead."""
    if supervisor is None or not supervisor_alive(supervisor) or lead.leader is not None:
        return
    if all(one.pid != supervisor.pid for one in lead.waiting):
        raise SupervisorError(
            f"the supervisor of this host (process {supervisor.pid}) began before the project had "
            "sharedState, and takes no order through it: end it first, with kfetch down"
        )


def _give_here(store: Store, jobs: Sequence[str], order: Order) -> Sequence[OrderReply]:
    """Give an order to this host's supervisor. Returns its replies; none if there is none."""
    alive = supervisor_alive(store.last_supervisor())
    now = time.time()
    ends_s = now + _VALID_S if alive else None
    order_ids = [store.add_order(name, order, now, ends_s) for name in jobs]
    if not alive:
        return ()
    deadline = time.monotonic() + _REPLY_WITHIN_S
    if not wait_until(
        lambda: all(store.reply_to(id_) is not None for id_ in order_ids), deadline, _POLL_S
    ):
        store.withdraw(order_ids, _NOT_TAKEN.to_text())
    return [OrderReply.from_text(store.reply_to(id_) or "") for id_ in order_ids]


def _check_names(project: Project, store: Store, jobs: Sequence[str], order: Order) -> None:
    known, without_file = project.jobs(), orphans(project, store)
    for name in jobs:
        if name in without_file and order is not Order.STOP:
            raise ConfigError(f"job {name} has no file any more: kfetch stop {name} ends it")
        if name not in (*known, *without_file):
            hint = suggestion(name, [*known, *without_file])
            raise ConfigError(f"there is no job {name}: {hint}")


def wait_until_done(
    store: Store,
    jobs: Sequence[str],
    order: Order,
    timeout_s: float,
    refresh: Callable[[], object] | None = None,
) -> None:
    """Wait until the jobs have carried out an accepted order.

    A job ends after its micro-batch. ``refresh`` brings the database up to date, if another host
    leads. Raises SupervisorError after ``timeout_s`` seconds.
    """
    ends = order in (Order.STOP, Order.PAUSE)
    unfinished = partial(_running if ends else _ending, store, jobs)
    pause_s = _ELSEWHERE_S if refresh else _POLL_S

    def waited(condition: Callable[[], bool], within_s: float) -> bool:
        def holds() -> bool:
            if refresh:
                refresh()
            return condition()

        return wait_until(holds, time.monotonic() + within_s, pause_s)

    if not waited(lambda: not unfinished(), timeout_s):
        raise SupervisorError(f"still running after {timeout_s:g} s: {', '.join(unfinished())}")
    if not ends:
        waited(lambda: not any(map(_is_due, _states(store, jobs).values())), _STARTED_WITHIN_S)


def _running(store: Store, jobs: Sequence[str]) -> list[str]:
    """The jobs with a process."""
    running = {run.job for run in store.open_runs()}
    return [name for name in jobs if name in running]


def _ending(store: Store, jobs: Sequence[str]) -> list[str]:
    """The jobs whose process still runs after the signal to end."""
    states = _states(store, jobs)
    return [name for name, state in states.items() if state.phase is Phase.STOPPING]


def _states(store: Store, jobs: Sequence[str]) -> dict[str, JobState]:
    return {name: state for name, state in store.states().items() if name in jobs}


def _is_due(state: JobState) -> bool:
    return state.phase is Phase.WAITING and state.due_s is not None and state.due_s <= time.time()


def shut_down(project: Project, store: Store, *, timeout_s: float, now: bool = False) -> int:
    """End the supervisor and every job of this host, with all processes. Returns how many jobs ran.

    With ``now``, the running micro-batches are cut off. Raises SupervisorError after ``timeout_s``
    seconds.
    """
    lead = read_lead(project, store)
    own = _own_runs(project, store, lead)
    supervisor = store.last_supervisor()
    if supervisor is not None and supervisor_alive(supervisor):
        _end_supervisor(supervisor, timeout_s, signals=2 if now else 1)
    with try_lock(lock_file(project.storage)) as locked:
        if not locked:
            raise SupervisorError(f"{project.storage} has a supervisor again: try once more")
        _end_orphans(project, store, lead, 0.0 if now else timeout_s)
        store.record_end(time.time())
    return len(own)


def _own_runs(
    project: Project, store: Store, lead: LeadStatus | None
) -> list[tuple[Run, RunProcess]]:
    """Returns the open runs of this host, with their processes.

    If supervisors of several hosts lead by turns, the runs may be those of another one. Then only
    those with a living process count.
    """
    if lead is None:
        return [(run, run_process(project.storage, run)) for run in store.open_runs()]
    found = [(run, find_by_mark(run_mark(project.storage, run.id))) for run in store.open_runs()]
    return [(run, process) for run, process in found if process is not None]


def _end_supervisor(supervisor: SupervisorRecord, timeout_s: float, signals: int) -> None:
    """The first SIGTERM ends jobs after their micro-batch, the second one at once."""
    for _ in range(signals):
        with suppress(ProcessLookupError):
            os.kill(supervisor.pid, signal.SIGTERM)
        time.sleep(_POLL_S)  # the system merges two signals at one moment
    deadline = time.monotonic() + timeout_s
    if not wait_until(lambda: not supervisor_alive(supervisor), deadline, _POLL_S):
        raise SupervisorError(
            f"the supervisor (process {supervisor.pid}) is not down after {timeout_s:.0f} s: a "
            "job's micro-batch takes long; try again, or with --now"
        )


def _end_orphans(project: Project, store: Store, lead: LeadStatus | None, timeout_s: float) -> None:
    """End the runs that a killed supervisor has left behind.

    If there are several hosts, the next leader records the ends. Raises SupervisorError if some of
    the processes do not die. Their runs have no end then.
    """
    left, undead = _own_runs(project, store, lead), list[str]()
    # Before any record: a full disk takes none.
    gone = end_together([process for _, process in left], timeout_s)
    for (run, _), is_gone in zip(left, gone, strict=True):
        if not is_gone:
            undead.append(run.job)
            continue
        remove_settings(project.storage, run.job)
        reason = "by kfetch down, without a supervisor"
        if lead is None:
            record_own_end(store, project.storage, run, time.time(), reason)
        else:
            report_interruption(project.storage, run.id, run.job, reason)
    if undead:
        raise SupervisorError(
            f"some processes do not die, of {', '.join(undead)}: does a disk not answer? "
            "Try again later"
        )
