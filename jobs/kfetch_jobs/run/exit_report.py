"""How a run ended: a kind for programs, a sentence for people.

The run writes its report into a file. The supervisor reads it, decides about a restart, and keeps
it in the history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from kfetch.errors import AccessRefused, OptionError
from kfetch_jobs.errors import ConfigError, RecordsLost, RefusedByBroker
from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.util.files import write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitReport:
    """How a run ended."""

    kind: ExitKind
    sentence: str = ""
    """The error; empty without one."""


def write_exit_report(path: Path, report: ExitReport) -> None:
    """Write the report for the supervisor."""
    write_json(path, asdict(report))


def read_exit_report(path: Path) -> ExitReport:
    """Return the report of a run. Without a readable file, the run's process was killed."""
    try:
        fields = json.loads(path.read_text())
        # A path in the sentence may have bytes that are not UTF-8, and SQLite refuses those.
        sentence = fields.get("sentence", "").encode(errors="backslashreplace").decode()
        # A run of an older kfetch wrote more keys.
        return ExitReport(kind=ExitKind(fields["kind"]), sentence=sentence)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        sentence = "the process was killed, or ended without a report"
        return ExitReport(kind=ExitKind.KILLED, sentence=sentence)


def exit_kind_of(error: BaseException) -> ExitKind:
    """Return the kind of exit for an error that ended a run."""
    if isinstance(error, ConfigError | OptionError):
        return ExitKind.CONFIG
    if isinstance(error, RefusedByBroker | AccessRefused):
        return ExitKind.AUTH
    return ExitKind.DATA_LOSS if isinstance(error, RecordsLost) else ExitKind.FAILED
