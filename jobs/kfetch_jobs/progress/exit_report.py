"""How a run ended: a kind for programs, a sentence for people. Pure.

Some kinds would only repeat with a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kfetch.errors import AccessRefused, KfetchError, LeaseLost, OptionError
from kfetch_jobs.errors import ConfigError, RecordsLost, RefusedByBroker


class ExitKind(StrEnum):
    """The ways in which a run ends. The supervisor's database and the exit report keep the text."""

    FINISHED = "finished"
    """The run read everything and ended by itself."""
    STOPPED = "stopped"
    """The run ended because of a stop signal."""
    CONFIG = "config"
    """A file of the project or the transform has a mistake."""
    AUTH = "auth"
    """The brokers refuse the log-in or an operation."""
    DATA_LOSS = "data_loss"
    """Kafka no longer has records that the job had not read."""
    FAILED = "failed"
    """Any other error."""
    KILLED = "killed"
    """The process ended without an exit report."""
    HUNG = "hung"
    """The query made no progress, and the supervisor ended it."""

    @property
    def succeeded(self) -> bool:
        """Whether the run ended without an error."""
        return self in (ExitKind.FINISHED, ExitKind.STOPPED)

    @property
    def needs_a_person(self) -> bool:
        """Whether the next run would end the same way, so that the supervisor must not restart."""
        return self in (ExitKind.CONFIG, ExitKind.AUTH, ExitKind.DATA_LOSS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReport:
    """How a run ended."""

    kind: ExitKind
    sentence: str = ""
    """The error; empty without one."""
    interrupted: bool = False
    """Whether it ended for a reason outside the job, so that this counts as no failure."""

    @property
    def by_signal(self) -> bool:
        """Whether a signal has ended the run, and not the loss of its lease."""
        return self.kind in (ExitKind.STOPPED, ExitKind.KILLED) and not self.interrupted


def interruption(sentence: str) -> ExitReport:
    """Returns the report of an interrupted run: another process may go on with the job."""
    return ExitReport(kind=ExitKind.STOPPED, sentence=sentence, interrupted=True)


def error_report(error: BaseException, sentence: str) -> ExitReport:
    """Returns the report of a run that an error has ended. ``sentence``: the error for people."""
    where = error.where if isinstance(error, KfetchError) else {}
    if isinstance(error, LeaseLost) or where.get("cause_condition") == LeaseLost.condition:
        return interruption(sentence)
    return ExitReport(kind=exit_kind_of(error), sentence=sentence)


def exit_kind_of(error: BaseException) -> ExitKind:
    """Returns the kind of exit for an error that ended a run."""
    if isinstance(error, ConfigError | OptionError):
        return ExitKind.CONFIG
    if isinstance(error, RefusedByBroker | AccessRefused):
        return ExitKind.AUTH
    return ExitKind.DATA_LOSS if isinstance(error, RecordsLost) else ExitKind.FAILED
