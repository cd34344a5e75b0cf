"""How a project's jobs are: what ``kfetch status`` prints, and a page would show.

Reads the project's files, the supervisor's database and each job's pulse; asks nobody, so it works
whether a supervisor runs or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.mistakes import unforeseen
from kfetch_jobs.config.models import Health
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka.process import find
from kfetch_jobs.run.watch import Pulse, pulse_file, read_pulse
from kfetch_jobs.supervise.machine import Phase, State
from kfetch_jobs.supervise.store import Incumbent, Run, Store
from kfetch_jobs.util.plural import counted

__all__ = ["JobView", "Overview", "alive", "overview", "unhealthy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job. Times are seconds since 1970."""

    name: str
    description: str = ""
    enabled: bool = True
    trigger: str = ""
    topics: tuple[str, ...] = ()
    query: str = ""
    """Spark's id of the query, once it has read."""
    statistics: tuple[str, ...] = ()
    """The directories of kfetch.statsDirectory, absolute."""
    target: str = ""
    dead_letter_table: str = ""
    """Where records go that can't be decoded, if it says so."""
    after: tuple[str, ...] = ()
    mistake: str = ""
    """Its file's, if it can't be used."""
    phase: Phase | None = None
    """None: no supervisor has seen it."""
    since_s: float | None = None
    due_s: float | None = None
    failures: int = 0
    error: str = ""
    """Why it failed, the last time it did; empty once it is healthy."""
    pid: int | None = None
    batch: int | None = None
    """The last one of the run that goes on."""
    lag: int | None = None
    lag_s: float | None = None
    """For so long at least the next offset has been waiting."""
    pulse_s: float | None = None
    """When the query last said anything."""
    unhealthy: tuple[str, ...] = ()
    """Why it is not as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All jobs, and who supervises them."""

    project: str
    environment: str | None
    supervisor: int | None
    """Its process, if it lives."""
    supervised_s: float | None
    """Since when."""
    jobs: tuple[JobView, ...]

    @property
    def healthy(self) -> bool:
        """Whether a supervisor lives, and every enabled job is as it should be."""
        return self.supervisor is not None and not any(job.unhealthy for job in self.jobs)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"healthy": self.healthy}


def alive(incumbent: Incumbent | None) -> bool:
    """Whether this supervisor's process lives."""
    return incumbent is not None and find(incumbent.pid, incumbent.process_started_s) is not None


def overview(project: Project, store: Store, now: float) -> Overview:
    """How all is at this moment."""
    incumbent = store.incumbent()
    lives = incumbent is not None and incumbent.ended_s is None and alive(incumbent)
    states = store.states()
    runs = {run.job: run for run in store.open_runs()}
    jobs = (_view(project, name, states.get(name), runs.get(name), now) for name in project.jobs())
    return Overview(
        project=str(project.path),
        environment=project.environment_name,
        supervisor=incumbent.pid if incumbent and lives else None,
        supervised_s=incumbent.started_s if incumbent and lives else None,
        jobs=tuple(jobs),
    )


def _view(project: Project, name: str, state: State | None, run: Run | None, now: float) -> JobView:
    try:
        return _right(project.job(name), project, state, run, now)
    except ConfigError as error:
        mistake = error.message
    except Exception as error:  # of one job, and all others are to be seen
        mistake = unforeseen(name, error)
    return JobView(name=name, mistake=mistake, unhealthy=(mistake,), **_told(state))


def _right(job: Job, project: Project, state: State | None, run: Run | None, now: float) -> JobView:
    pulse = read_pulse(pulse_file(job)) if run else None
    if run and pulse and pulse.at < run.started_s:
        pulse = None  # of an earlier run
    return JobView(
        name=job.name,
        description=job.file.description,
        enabled=job.file.enabled,
        trigger=str(job.file.trigger),
        topics=_topics(job),
        statistics=_statistics(project, job),
        target=str(job.target),
        dead_letter_table=str(job.dead_letters or ""),
        after=tuple(job.file.after),
        pid=run.pid if run else None,
        unhealthy=_unhealthy(job, state, pulse, now),
        **_told(state),
        **_measured(pulse, now),
    )


def _topics(job: Job) -> tuple[str, ...]:
    return tuple(
        text for source in job.file.views().values() for text in source.strategy().values()
    )


def _statistics(project: Project, job: Job) -> tuple[str, ...]:
    named = {
        source.options.get("kfetch.statsDirectory", "") for source in job.file.views().values()
    }
    return tuple(str(project.path.parent / directory) for directory in sorted(named) if directory)


def _told(state: State | None) -> dict[str, Any]:
    if state is None:
        return {}
    return {
        "phase": state.phase,
        "since_s": state.since_s,
        "due_s": state.due_s,
        "failures": state.failures,
        "error": state.sentence,
    }


def _measured(pulse: Pulse | None, now: float) -> dict[str, Any]:
    if pulse is None:
        return {}
    return {
        "query": pulse.query,
        "batch": pulse.batch,
        "lag": pulse.lag,
        "lag_s": _lag_s(pulse, now),
        "pulse_s": pulse.at,
    }


def _lag_s(pulse: Pulse, now: float) -> float:
    # What was waiting then waits still: no micro-batch has ended since.
    return round(pulse.lag_s + max(0.0, now - pulse.at), 3) if pulse.lag else 0.0


def _unhealthy(job: Job, state: State | None, pulse: Pulse | None, now: float) -> tuple[str, ...]:
    if state is None or not job.file.enabled:
        return ()
    return tuple(unhealthy(job.file.health, state, pulse, now))


def unhealthy(health: Health, state: State, pulse: Pulse | None, now: float) -> Iterator[str]:
    """Why a job is not as it should be."""
    if state.phase is Phase.FAILED:
        yield f"given up: {state.sentence}"
    elif state.phase is Phase.BACKOFF:
        yield f"failed {counted(state.failures, 'time')} in a row: {state.sentence}"
    if state.phase is not Phase.RUNNING:
        return
    silent_s = now - max(state.started_s or now, pulse.at if pulse else 0.0)
    if health.noProgress is not None and silent_s > health.noProgress:
        yield f"no progress for {silent_s:.0f} s, more than {health.noProgress:.0f}"
    if pulse is None or pulse.lag is None:
        return
    if health.lagRecords is not None and pulse.lag > health.lagRecords:
        yield f"{pulse.lag:,} records behind, more than {health.lagRecords:,}"
    if health.lagSeconds is not None and _lag_s(pulse, now) > health.lagSeconds:
        yield f"{_lag_s(pulse, now):.0f} s behind, more than {health.lagSeconds:.0f}"
