"""How a run ended: a kind for programs, a sentence for people. Pure.

Some kinds would only repeat with a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kfetch.errors import AccessRefused, OptionError
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


def exit_kind_of(error: BaseException) -> ExitKind:
    """Returns the kind of exit for an error that ended a run."""
    if isinstance(error, ConfigError | OptionError):
        return ExitKind.CONFIG
    if isinstance(error, RefusedByBroker | AccessRefused):
        return ExitKind.AUTH
    return ExitKind.DATA_LOSS if isinstance(error, RecordsLost) else ExitKind.FAILED
