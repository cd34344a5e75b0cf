"""The state of a supervised job, its orders, and the facts that the state machine needs: values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a job."""

    WAITING = "waiting"
    """The job waits for its time, for the jobs before it, or for room."""
    RUNNING = "running"
    STOPPING = "stopping"
    """The process has an order to end after its micro-batch."""
    BACKOFF = "backoff"
    """The job has failed, and waits before its restart."""
    FINISHED = "finished"
    """The job has read everything, and has no next run."""
    FAILED = "failed"
    """The supervisor has given the job up. Only ``start`` and ``restart`` run it again."""
    PAUSED = "paused"
    STOPPED = "stopped"

    @property
    def has_process(self) -> bool:
        """Whether a job in this phase has a process."""
        return self in (Phase.RUNNING, Phase.STOPPING)


class Order(StrEnum):
    """The orders for a job."""

    START = "start"
    """Run the job now, whatever its trigger says."""
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


class Action(StrEnum):
    """An action that the supervisor takes."""

    LAUNCH = "launch"
    END = "end"
    """Send SIGTERM: the job ends after its micro-batch."""
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of a job. The database keeps it as JSON, under these names."""

    phase: Phase
    since_s: float
    """When the phase began."""
    due_s: float | None = None
    """The earliest start of the next run; None: it waits for the jobs before it."""
    ready_s: float | None = None
    """Since when the job waits for nothing but room."""
    forced: bool = False
    """An order asked for the next run, so it does not wait for other jobs."""
    failures: int = 0
    """Failures in a row."""
    started_s: float | None = None
    """When the last run started."""
    finished_s: float | None = None
    """When a run last read everything."""
    then: Phase | None = None
    """The phase after STOPPING; RUNNING stands for a run that the next supervisor resumes. In
    PAUSED the phase after ``resume``."""
    asked: bool = False
    """Whether the process has got its SIGTERM."""
    queued: bool = False
    """A cron time came during the run, and one more run follows."""
    silent_kills: int = 0
    """How often the supervisor has killed a silent run since a micro-batch was last committed, or
    the query was idle in a healthy run."""
    sentence: str = ""
    """The last failure; empty after a run that finished or was healthy."""
    refusal: str = ""
    """Why the supervisor can't start the job now, in WAITING and BACKOFF. It tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that a tick needs."""

    now: float
    upstream_finished: bool = True
    """The jobs in ``after`` have finished."""
    has_room: bool = True
    """``concurrency`` allows one more job, and no other job comes first."""
    has_file: bool = True
    """The job's file is still there."""
    silent_s: float = 0.0
    """The query has given no sign of life for this long, in seconds."""
    has_committed: bool = False
    """This run has committed a micro-batch."""
    is_idle: bool = False
    """This run's query had nothing to read: no micro-batch was left from the run before."""
