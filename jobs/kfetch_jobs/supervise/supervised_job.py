"""One job of a supervisor: its file as it was read, its state, and its process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kfetch_jobs.config import Job, JobFile
from kfetch_jobs.config.cross_checks import same_rows_mistake, writes_same_records
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.progress_file import committed_since
from kfetch_jobs.progress.reports import Pulse, read_pulse
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.processes import RunProcess
from kfetch_jobs.supervise.state_machine import after_clock_step

HELD = (Phase.STOPPED, Phase.PAUSED, Phase.FAILED)
"""Phases in which only an order starts a job again. The supervisor checks that order itself."""

UNREAD = JobFile.model_validate(
    {"source": {"cluster": "-", "subscribe": "-"}, "sink": {"path": "-"}, "trigger": "availableNow"}
)
"""Stands for a job's file until that can be read. A run that finishes is believed."""


@dataclass(slots=True)
class SupervisedJob:
    """One job, and its process during a run."""

    directory: Path
    job: Job | None
    """None if its files can't be read now: no run of it starts."""
    state: JobState
    run: int | None = None
    process: RunProcess | None = None
    looked: bool = False
    """Whether a look at its checkpoint has allowed a start. Later runs look for themselves: a disk
    that hangs would hang the supervisor."""
    no_start: ExitReport | None = None
    """Why the run has no process. Its end is not recorded yet, because the disk is full."""
    killed: bool = False
    """The supervisor has killed it: it did not end in time, or ``hurry`` was set."""
    heard_s: float | None = None
    """When the supervisor launched the run, or first saw its present pulse."""
    heard_at: float | None = None
    """The moment in that pulse."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.directory.name

    @property
    def file(self) -> JobFile:
        """The job's file, as it was read."""
        return self.job.file if self.job else UNREAD

    @property
    def has_file(self) -> bool:
        """Whether its file was read and is still there: nobody has renamed or deleted it."""
        return self.job is not None and self.job.document.path.exists()

    @property
    def may_write(self) -> bool:
        """Whether it writes rows, or starts to without an order."""
        return self.process is not None or self.state.phase not in HELD

    def pulse(self) -> Pulse | None:
        """Returns the pulse of the present run; None before its first."""
        return read_pulse(self.directory, self.state.started_s or 0.0)

    def committed(self) -> tuple[int, int]:
        """Returns the number of micro-batches that the present run committed, and of their rows."""
        return committed_since(self.directory, self.state.started_s or 0.0)

    def silent_s(self, pulse: Pulse | None, now: float, read_s: float) -> float:
        """Returns for how long the supervisor has seen no new sign of life of a run, in seconds.

        ``read_s`` is when it read the pulse: long after ``now`` if the round hung at a disk.
        """
        if self.process is None:
            return 0.0
        at = pulse.at if pulse else None
        if self.heard_s is None or self.heard_at != at:
            self.heard_s, self.heard_at = read_s, at
        return now - self.heard_s

    def clock_stepped(self, step_s: float, now: float) -> None:
        """Keep all durations: somebody has set the clock by ``step_s``, to ``now``."""
        self.state = after_clock_step(self.file, self.state, step_s, now)
        if self.heard_s is not None:
            self.heard_s += step_s


def second_writer(job: Job, others: Iterable[SupervisedJob]) -> str:
    """Returns a sentence if the job would write rows that another one writes."""
    known = [(other, other.job) for other in others if other.job and other.name != job.name]
    for other, its in known:
        if other.process and not other.has_file and writes_same_records(job, its):
            return (
                f"job {job.name} cannot start: job {other.name}, which still runs though its "
                "file is gone, writes records of the same source to the same table: "
                f"kfetch stop {other.name} first"
            )
    writers = [its for other, its in known if other.has_file]
    return same_rows_mistake(job, writers)


def comes_before(other: SupervisedJob, job: SupervisedJob) -> bool:
    """Returns whether a due job must not write the rows of another one.

    One of two such jobs runs on, and after a refusal the other one needs an order to replace it.
    """
    if other.process is not None or other.state.refusal:
        return other.process is not None
    return bool(job.state.refusal) or (other.may_write and other.name < job.name)


def history_entry(supervised: SupervisedJob, report: ExitReport) -> tuple[ExitKind, str]:
    """Returns the history's entry for a run's end: its kind and its sentence.

    If the supervisor ended the run, the sentence has the supervisor's reason.
    """
    state = supervised.state
    if state.phase is not Phase.STOPPING:
        return report.kind, report.sentence
    if state.then is Phase.BACKOFF:
        return ExitKind.HUNG, state.sentence
    if report.kind is not ExitKind.KILLED:
        return report.kind, report.sentence
    if supervised.killed:
        return ExitKind.KILLED, "it did not end in time after the signal to stop"
    return ExitKind.STOPPED, "the signal to stop came before its query had started"


def waiting_jobs(states: Mapping[str, JobState]) -> set[str]:
    """Returns the jobs that a supervisor would run. Without one, nobody may take them for such."""
    return {
        name
        for name, state in states.items()
        if state.phase in (Phase.WAITING, Phase.BACKOFF) or state.phase.has_process
    }
