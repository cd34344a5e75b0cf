"""One job of a supervisor: its file as it was read, its state, and its process."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
from kfetch_jobs.config import Job, JobFile
from kfetch_jobs.config.cross_checks import same_rows_mistake, writes_same_records
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.progress_file import committed_since
from kfetch_jobs.progress.reports import Pulse, read_pulse
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.processes import RunProcess
from kfetch_jobs.supervise.state_machine import after_clock_step

log = logging.getLogger("kfetch_jobs.supervisor")

HELD = (Phase.STOPPED, Phase.PAUSED, Phase.FAILED)
"""Phases in which only an order starts a job again. The supervisor checks that order itself."""


@dataclass(slots=True)
class SupervisedJob:
    """One job, and its process during a run."""

    job: Job
    state: JobState
    run: int | None = None
    process: RunProcess | None = None
    killed: bool = False
    """The supervisor has killed it: it did not end in time, or ``hurry`` was set."""
    heard_s: float | None = None
    """When the supervisor launched the run, or first saw its present pulse."""
    heard_at: float | None = None
    """The moment in that pulse."""

    @property
    def file(self) -> JobFile:
        """The job's file, as it was read."""
        return self.job.file

    @property
    def has_file(self) -> bool:
        """Whether its file is still there: nobody has renamed or deleted it."""
        return self.job.document.path.exists()

    @property
    def may_write(self) -> bool:
        """Whether it writes rows, or starts to without an order."""
        return self.process is not None or self.state.phase not in HELD

    def pulse(self) -> Pulse | None:
        """Returns the pulse of the present run; None before its first."""
        return read_pulse(self.job.directory, self.state.started_s or 0.0)

    def committed(self) -> tuple[int, int]:
        """Returns the number of micro-batches that the present run committed, and of their rows."""
        return committed_since(self.job.directory, self.state.started_s or 0.0)

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
    """Returns a sentence if the job would write rows that another one writes, or has written."""
    others = [other for other in others if other.job.name != job.name]
    for other in others:
        if other.process and not other.has_file and writes_same_records(job, other.job):
            return (
                f"job {job.name} cannot start: job {other.job.name}, which still runs though its "
                "file is gone, writes records of the same source to the same table: "
                f"kfetch stop {other.job.name} first"
            )
    writers = [other.job for other in others if other.has_file and other.may_write]
    return same_rows_mistake(job, writers) or fresh_start_refusal(job)


def single_writers(
    jobs: Mapping[str, Job], states: Mapping[str, JobState], living: Collection[str]
) -> dict[str, Job]:
    """Returns the enabled jobs of which no two start and write the same rows. Log the others.

    A job that would start anew, although it or a former job has run, does not start either.

    ``living`` names the jobs with a process, which stay. Held jobs stay too: an order starts them.
    """
    enabled = {name: job for name, job in jobs.items() if job.file.enabled}
    held = {name for name in enabled if name in states and states[name].phase in HELD}
    writers = {name: job for name, job in enabled.items() if name in living}
    for name in sorted(enabled.keys() - writers.keys() - held):
        job = enabled[name]
        if sentence := same_rows_mistake(job, writers.values()) or fresh_start_refusal(job):
            log.error("job %s does not start: %s", name, sentence)
        else:
            writers[name] = job
    return {name: job for name, job in enabled.items() if name in writers or name in held}


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
