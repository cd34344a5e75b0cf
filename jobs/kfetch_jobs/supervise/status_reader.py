"""Reads the status of a project's jobs.

It reads the project's files, the supervisor's database, each job's pulse, and the lease of its
checkpoint. It asks no other process. So it works with and without a supervisor. On a host that does
not lead, it knows phases and runs, and no pulse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from kfetch_jobs.checkpoints.backup import interrupted_move
from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.cross_checks import after_mistakes
from kfetch_jobs.config.mistakes import unexpected_mistake
from kfetch_jobs.config.models import Health
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.broker_report import ELECTION_S, Unreachable
from kfetch_jobs.progress.progress_file import last_batch
from kfetch_jobs.progress.reports import Pulse, read_pulse, read_unreachable
from kfetch_jobs.supervise.heartbeat import heartbeat_age_s
from kfetch_jobs.supervise.job_lag import OLD_S, JobLag, job_lag
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.leadership import read_lead
from kfetch_jobs.supervise.lease_looks import LeaseLooks
from kfetch_jobs.supervise.run_process import run_process
from kfetch_jobs.supervise.state_machine import SILENT_KILLS_MAX, jobs_ahead
from kfetch_jobs.supervise.status import JobStatus, ProjectStatus
from kfetch_jobs.supervise.store import Run, Store, SupervisorRecord
from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.util.files import read_disk_space
from kfetch_jobs.util.process import find
from kfetch_jobs.util.wording import counted


def supervisor_alive(supervisor: SupervisorRecord | None) -> bool:
    """Returns whether the process of this supervisor lives."""
    if supervisor is None:
        return False
    started_s, start = supervisor.process_started_s, supervisor.process_start
    return find(supervisor.pid, started_s, start) is not None


def read_status(project: Project, store: Store, now: float) -> ProjectStatus:
    """Returns the status of all jobs at ``now``, in seconds since 1970."""
    lead = read_lead(project, store)
    recorded = _Recorded.of(project, store)
    if lead is not None and lead.waits_here(supervised=recorded.supervisor is not None):
        recorded = replace(recorded, runs={}, waits_here=True)
    supervisor = recorded.supervisor
    looks = LeaseLooks()
    read = project.read_jobs()
    jobs = [_job_status(name, read, recorded, now, looks) for name in read]
    leases = looks.ended()
    jobs = [replace(job, lease=leases.get(job.name)) for job in jobs]
    orphans = [_orphan_status(name, recorded) for name in _orphans(project, recorded)]
    return ProjectStatus(
        project=str(project.path),
        environment=project.environment_name,
        supervisor=supervisor.pid if supervisor else None,
        supervised_s=supervisor.started_s if supervisor else None,
        loop_age_s=(
            heartbeat_age_s(project.storage, now, supervisor.started_s) if supervisor else None
        ),
        lead=lead,
        jobs=tuple(sorted((*jobs, *orphans), key=lambda job: job.name)),
    )


def orphans(project: Project, store: Store) -> list[str]:
    """Returns the jobs that still run, or wait for a run, although they have no file any more."""
    return _orphans(project, _Recorded.of(project, store))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """What the database says, and which of its processes live."""

    supervisor: SupervisorRecord | None
    """The running supervisor; None if none runs."""
    states: Mapping[str, JobState]
    runs: Mapping[str, Run]
    """The run of each job that has no end yet. Without a supervisor, it has a process."""
    storage: Path
    waits_here: bool = False
    """Whether the states are those of another host's supervisor, or of the last one."""

    @classmethod
    def of(cls, project: Project, store: Store) -> Self:
        last = store.last_supervisor()
        running = last if last is None or last.ended_s is None else None
        supervisor, storage = running if supervisor_alive(running) else None, project.storage
        open_ = (run for run in store.open_runs() if supervisor or run_process(storage, run).alive)
        return cls(
            supervisor=supervisor,
            states=store.states(),
            runs={run.job: run for run in open_},
            storage=storage,
        )

    def runs_on(self, name: str) -> bool:
        """Whether the job has a process."""
        return name in self.runs and run_process(self.storage, self.runs[name]).alive

    def waits(self, name: str) -> bool:
        """Whether the supervisor would start the job."""
        waiting = name in self.states and self.states[name].phase in (Phase.WAITING, Phase.BACKOFF)
        return waiting and self.supervisor is not None

    def queue_place(self, name: str) -> int | None:
        """The job's place among those that wait for room; None if it does not wait for room."""
        ready = self.supervisor and name in self.states and self.states[name].ready_s
        return jobs_ahead(name, self.states) + 1 if ready else None

    def way_to_stop(self, name: str) -> str:
        """The command that ends the job."""
        return f"kfetch stop {name}" if self.supervisor else "kfetch down"


def _orphans(project: Project, recorded: _Recorded) -> list[str]:
    gone = (recorded.states.keys() | recorded.runs.keys()) - set(project.jobs())
    return sorted(name for name in gone if recorded.runs_on(name) or recorded.waits(name))


def _orphan_status(name: str, recorded: _Recorded) -> JobStatus:
    run = recorded.runs.get(name)
    goes_on = "and it still runs" if recorded.runs_on(name) else "and no run of it starts"
    return JobStatus(
        name=name,
        orphan=True,
        pid=run.pid if run else None,
        unhealthy=(f"its file is gone, {goes_on}: {recorded.way_to_stop(name)}",),
        **_state_fields(recorded.states.get(name)),
    )


def _job_status(
    name: str,
    read: Mapping[str, Job | ConfigError],
    recorded: _Recorded,
    now: float,
    looks: LeaseLooks,
) -> JobStatus:
    """Returns the status of a job. ``read``: all jobs of the project."""
    try:
        if isinstance(job := read[name], ConfigError):
            raise job
        looks.begin(job)
        return _valid_job_status(job, read, recorded, now)
    except ConfigError as error:
        mistake = error.message
    except Exception as error:  # a bug that one job triggers must not hide the others
        mistake = unexpected_mistake(name, error)
    state = recorded.states.get(name)
    return JobStatus(name=name, mistake=mistake, unhealthy=(mistake,), **_state_fields(state))


def _valid_job_status(
    job: Job, read: Mapping[str, Job | ConfigError], recorded: _Recorded, now: float
) -> JobStatus:
    state, run = recorded.states.get(job.name), recorded.runs.get(job.name)
    pulse = read_pulse(job.directory, run.started_s) if run else None
    unreachable = read_unreachable(job, run.started_s) if run else ()
    last = None if recorded.waits_here else last_batch(job.directory)
    lag = job_lag(job, run.started_s, pulse, last, now) if run else JobLag()
    lag = replace(lag, at_least=lag.at_least or bool(unreachable))
    space = _checkpoint_space(job)
    return JobStatus(
        name=job.name,
        description=job.file.description,
        enabled=job.file.enabled,
        trigger=str(job.file.trigger),
        topics=_topics(job),
        statistics=tuple(job.statistics),
        target=str(job.target),
        dead_letter_table=str(job.dead_letters or ""),
        checkpoint=job.checkpoint,
        checkpoint_space=space,
        after=tuple(job.file.after),
        pid=run.pid if run else None,
        last_batch=last.batch if last else None,
        unreachable=unreachable,
        unhealthy=(
            *(after_mistakes(job, read) if job.file.enabled else ()),
            *_interrupted_move(job),
            *_problems(job, recorded, pulse, lag, now),
            *_broker_problems(state, unreachable, now),
            *_space_problems(job, space),
        ),
        queue_place=recorded.queue_place(job.name),
        elsewhere=recorded.waits_here,
        **_state_fields(state),
        **_pulse_fields(pulse, lag),
    )


def _topics(job: Job) -> tuple[str, ...]:
    return tuple(
        text for source in job.file.views().values() for text in source.strategy().values()
    )


def _state_fields(state: JobState | None) -> dict[str, Any]:
    if state is None:
        return {}
    return {
        "phase": state.phase,
        "since_s": state.since_s,
        "due_s": state.due_s,
        "failures": state.failures,
        "error": state.sentence,
    }


def _pulse_fields(pulse: Pulse | None, lag: JobLag) -> dict[str, Any]:
    if pulse is None:
        return {}
    return {
        "query": pulse.query,
        "batch": pulse.batch,
        "lag": lag.offsets,
        "lag_s": lag.seconds,
        "lag_seen_at": lag.at,
        "lag_at_least": lag.at_least,
        "pulse_s": pulse.at,
    }


def _problems(
    job: Job, recorded: _Recorded, pulse: Pulse | None, lag: JobLag, now: float
) -> Iterator[str]:
    state = recorded.states.get(job.name)
    if not job.file.enabled:
        if recorded.runs_on(job.name):
            stop = recorded.way_to_stop(job.name)
            yield f"its file disables it, and it still runs: {stop}"
        elif recorded.waits(job.name):
            stop = recorded.way_to_stop(job.name)
            yield f"its file disables it, and the supervisor still starts it: {stop}"
    elif state is not None:
        if recorded.waits_here:
            yield from failure_problems(state)
        elif state.phase.has_process and not (recorded.supervisor or job.name in recorded.runs):
            yield "its process has ended, and no supervisor has recorded how"
        else:
            yield from health_problems(job.file.health, state, pulse, lag, now)
        yield from _room_problems(job.file.health, state, recorded.queue_place(job.name), now)
    elif refusal := fresh_start_refusal(job):
        yield refusal


def _room_problems(health: Health, state: JobState, place: int | None, now: float) -> Iterator[str]:
    waited_s = now - (state.ready_s or now)
    if place and waited_s > health.startWithin:
        yield (
            f"no room to run for {waited_s:.0f} s, more than {health.startWithin:.0f}: place "
            f"{place} in the queue: raise concurrency, or stop another job"
        )


def _interrupted_move(job: Job) -> Iterator[str]:
    """Yields that a move of the job's offsets has not ended. It may still run."""
    try:
        # ``status`` asks a store only for leases. A run looks at moves.
        move = interrupted_move(job) if local_directory(job) else None
    except JobsError as error:
        yield error.message
        return
    if move:
        yield (
            f"{move.description} has not ended: if it no longer runs, "
            f"kfetch offsets undo {job.name} --execute"
        )


def _checkpoint_space(job: Job) -> DiskSpace | None:
    directory = local_directory(job)
    return read_disk_space(directory) if directory else None


def _space_problems(job: Job, space: DiskSpace | None) -> Iterator[str]:
    """Yields that the disk of the checkpoint is almost full: Spark could commit no micro-batch."""
    if job.file.enabled and space is not None and space.short:
        yield f"the disk of its checkpoint {job.checkpoint} has only {space}"


def _broker_problems(
    state: JobState | None, unreachable: Iterable[Unreachable], now: float
) -> Iterator[str]:
    """Yields the brokers that the running query cannot reach. An election takes a moment."""
    if state is not None and state.phase is Phase.RUNNING:
        yield from (str(one) for one in unreachable if now - one.since_at >= ELECTION_S)


def failure_problems(state: JobState) -> Iterator[str]:
    """Yields that the supervisor can't start a job, or that it failed, or is given up."""
    if state.refusal:
        yield f"it can't start: {state.refusal}"
    if state.phase is Phase.FAILED:
        yield f"given up: {state.sentence}"
    elif state.phase is Phase.BACKOFF:
        yield f"failed {counted(state.failures, 'time')} in a row: {state.sentence}"


def health_problems(
    health: Health, state: JobState, pulse: Pulse | None, lag: JobLag, now: float
) -> Iterator[str]:
    """Yields the reasons why a job counts as unhealthy."""
    yield from failure_problems(state)
    if state.phase is not Phase.RUNNING:
        return
    silent_s = now - max(state.started_s or now, pulse.at if pulse else 0.0)
    if health.noProgress is not None and silent_s > health.noProgress:
        gave_up = state.silent_kills >= SILENT_KILLS_MAX
        yield f"no progress for {silent_s:.0f} s, more than {health.noProgress:.0f}" + (
            f"; killed {state.silent_kills} times at this micro-batch, so the supervisor lets it "
            "run"
            if gave_up
            else ""
        )
    start_s = now - (state.started_s or now)
    if pulse is None and start_s > health.startWithin:
        yield f"its query has not started for {start_s:.0f} s, more than {health.startWithin:.0f}"
    if lag.offsets is not None:
        yield from _lag_problems(health, lag.offsets, lag, now)


def _lag_problems(health: Health, offsets: int, lag: JobLag, now: float) -> Iterator[str]:
    if health.lagRecords is not None and offsets > health.lagRecords:
        yield f"{offsets:,} records behind, more than {health.lagRecords:,}"
    if health.lagSeconds is None:
        return
    limit_s, unknown_s = max(health.lagSeconds, OLD_S), now - (lag.at or now)
    if lag.seconds > health.lagSeconds:
        yield f"{lag.seconds:.0f} s behind, more than {health.lagSeconds:.0f}"
    elif unknown_s > limit_s:
        yield f"its lag is unknown for {unknown_s:.0f} s, more than {health.lagSeconds:.0f}"
    elif unknown_s < -limit_s:
        yield "its lag is unknown: somebody has set the clock back, and no report came since"
