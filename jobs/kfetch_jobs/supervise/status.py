"""The status of a project's jobs, as values: pure.

``status_reader.py`` reads it. ``kfetch status``, the page and the metrics show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kfetch_jobs.progress.broker_report import Unreachable
from kfetch_jobs.supervise.job_state import Phase
from kfetch_jobs.supervise.shared_state import WaitingHost
from kfetch_jobs.util.disk_space import DiskSpace
from kfetch_jobs.util.wording import utc

STUCK_S = 20.0
"""The loop steps five times a second, and may wait for a disk. Longer means that it hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """Which process holds the lease of a job's checkpoint, or why nobody knows."""

    host: str = ""
    pid: int | None = None
    purpose: str = ""
    """What it does, such as ``run of job clicks``."""
    since_s: float | None = None
    """By the clock of its host."""
    here: bool = False
    """Whether it is a process of this machine."""
    over_s: float | None = None
    """Since when another process may take it, by the clock of the store; None: not yet."""
    trouble: str = ""
    """Why the lease can't be read; empty if it can."""

    def __str__(self) -> str:
        if self.trouble:
            return f"its lease is unknown: {self.trouble}"
        return f"held by {self.process} ({self.purpose})"

    @property
    def process(self) -> str:
        """Its holder, for people."""
        return f"process {self.pid} on host {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadStatus:
    """Which supervisor of several hosts leads, and who waits."""

    leader: LeaseStatus | None
    """None if nobody leads."""
    here: bool
    """Whether this host's supervisor leads."""
    in_term: bool = False
    """Whether the runs of this host may go on. It knows that without the store."""
    waiting: tuple[WaitingHost, ...] = ()
    trouble: str = ""
    """Why nobody knows who waits, or what the leader knows; empty if it is known."""

    @property
    def elsewhere(self) -> bool:
        """Whether the supervisor of another host leads."""
        return not self.problem and not self.here

    def waits_here(self, *, supervised: bool) -> bool:
        """Whether this host does not run the jobs. ``supervised``: a supervisor runs here."""
        return self.elsewhere or (supervised and not self.in_term)

    @property
    def vacant(self) -> bool:
        """Whether nobody leads."""
        return self.leader is None or self.leader.over_s is not None

    @property
    def problem(self) -> str:
        """Returns why nobody may look after the jobs; empty if somebody leads."""
        leader, why = self.leader, ""
        if leader is not None and leader.trouble:
            return f"nobody knows who leads: {leader.trouble}"
        if not self.vacant:
            return ""
        if leader is not None and leader.over_s is not None:
            why = f", because the lease of {leader.process} is over since {utc(leader.over_s)}"
        start = "one that waits takes over" if self.waiting else "start one with kfetch up"
        return f"no supervisor leads{why}: {start}"

    def to_json(self) -> dict[str, Any]:
        """Returns the lead for ``--json``."""
        leader = with_times(asdict(self.leader)) if self.leader else None
        waiting = [with_times(asdict(one)) for one in self.waiting]
        return asdict(self) | {"leader": leader, "waiting": waiting}

    def sentences(self) -> list[str]:
        """Returns who leads, and who waits, for people."""
        lines = [self.problem] if self.problem else []
        if self.leader is not None and self.leader.since_s is not None and not self.problem:
            since = f"since {utc(self.leader.since_s)}"
            place = "this host" if self.here else f"host {self.leader.host}"
            lines.append(f"{place} leads {since} (process {self.leader.pid})")
        lines += [f"{one} waits since {utc(one.since_s)}" for one in self.waiting]
        return [*lines, self.trouble] if self.trouble else lines


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of one job. Times are seconds since 1970."""

    name: str
    description: str = ""
    enabled: bool = True
    orphan: bool = False
    """Its file is gone, and it still runs, or waits for a run."""
    trigger: str = ""
    topics: tuple[str, ...] = ()
    query: str = ""
    """Spark's id of the query; empty before its first micro-batch."""
    statistics: tuple[str, ...] = ()
    """The directories of kfetch.statsDirectory, as absolute paths."""
    target: str = ""
    dead_letter_table: str = ""
    """The table for records that cannot be decoded; empty if the job names none."""
    checkpoint: str = ""
    """An absolute path, or a URI."""
    checkpoint_space: DiskSpace | None = None
    """The space where the checkpoint lies; None for a URI."""
    lease: LeaseStatus | None = None
    """Who holds the lease of the checkpoint; None if nobody does."""
    after: tuple[str, ...] = ()
    mistake: str = ""
    """The mistakes in the job's file; empty if the file is valid."""
    phase: Phase | None = None
    """None: no supervisor has seen the job."""
    since_s: float | None = None
    due_s: float | None = None
    queue_place: int | None = None
    """The place among the jobs that wait for nothing but room, from 1; None: it does not."""
    elsewhere: bool = False
    """Whether this host does not lead, so that only another one knows lag and progress."""
    failures: int = 0
    error: str = ""
    """The last failure; empty once the job is healthy."""
    pid: int | None = None
    batch: int | None = None
    """The last micro-batch of the current run."""
    last_batch: int | None = None
    """The last micro-batch that any run committed."""
    lag: int | None = None
    """Offsets that no committed micro-batch has."""
    lag_s: float | None = None
    """The next offset has waited at least this long, in seconds."""
    lag_seen_at: float | None = None
    """When the driver saw the log ends."""
    lag_at_least: bool = False
    """Whether the lag may be larger: the log ends are old, or a broker does not answer."""
    pulse_s: float | None = None
    """When the query last reported."""
    unreachable: tuple[Unreachable, ...] = ()
    """Brokers that the running query cannot reach."""
    unhealthy: tuple[str, ...] = ()
    """The reasons why the job counts as unhealthy."""

    @property
    def outage_since_s(self) -> float | None:
        """When the running outage of brokers began; None without one."""
        return min((one.since_at for one in self.unreachable), default=None)

    @property
    def lag_is_known(self) -> bool:
        """Whether ``lag`` says something: 0 at least says nothing."""
        return self.lag is not None and not (self.lag == 0 and self.lag_at_least)

    @property
    def lease_of_others(self) -> LeaseStatus | None:
        """The lease, unless the job's own run of this machine holds it."""
        own = self.lease is not None and self.lease.here and self.lease.pid == self.pid
        return None if own else self.lease

    @property
    def starting(self) -> bool:
        """Whether the process runs, and its query has not started yet.

        kfetch does not know it without a valid file, because the file says where the progress is.
        """
        known = self.pid is not None and not self.orphan and not self.mistake
        return known and self.phase is Phase.RUNNING and self.pulse_s is None

    def to_json(self) -> dict[str, Any]:
        """Returns the status for ``--json``."""
        lease = with_times(asdict(self.lease)) if self.lease else None
        return with_times(asdict(self)) | {"starting": self.starting, "lease": lease}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStatus:
    """The status of all jobs, and of their supervisor."""

    project: str
    environment: str | None
    supervisor: int | None
    """The pid of the running supervisor; None if none runs."""
    supervised_s: float | None
    """When the supervisor started: seconds since 1970."""
    loop_age_s: float | None = None
    """How long ago the supervisor's loop last completed a round, in seconds."""
    lead: LeadStatus | None = None
    """Who leads; None if the project has no ``sharedState``."""
    jobs: tuple[JobStatus, ...]

    @property
    def led_elsewhere(self) -> bool:
        """Whether another host runs the jobs, so that this one knows little about them."""
        return self.lead is not None and self.lead.elsewhere

    @property
    def waits_here(self) -> bool:
        """Whether this host does not run the jobs: another one does, or its supervisor waits."""
        supervised = self.supervisor is not None
        return self.lead is not None and self.lead.waits_here(supervised=supervised)

    @property
    def stuck(self) -> bool:
        """Whether the supervisor lives, and its loop does not go on."""
        return self.loop_age_s is not None and self.loop_age_s > STUCK_S

    @property
    def healthy(self) -> bool:
        """Whether a supervisor runs, its loop goes on, and every enabled job is healthy."""
        here = self.supervisor is not None and (self.lead is None or self.lead.here)
        looked_after = self.led_elsewhere or (here and not self.stuck)
        return looked_after and not any(job.unhealthy for job in self.jobs)

    def to_json(self) -> dict[str, Any]:
        """Returns the status for ``--json``."""
        jobs = [job.to_json() for job in self.jobs]
        lead = self.lead.to_json() if self.lead else None
        return with_times(asdict(self)) | {"lead": lead, "jobs": jobs, "healthy": self.healthy}


_TIMES = ("since", "due", "pulse", "supervised", "started", "ended", "seen", "over")


def with_times(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values for ``--json``: each moment has a name with ``_at``, as in ``since_at``.

    The suffix ``_s`` belongs to durations. Moments keep it too, for the scripts that know it.
    """
    moments = {f"{name}_at": values[f"{name}_s"] for name in _TIMES if f"{name}_s" in values}
    return {**values, **moments}
