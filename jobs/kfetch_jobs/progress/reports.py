"""The reports of a run for the supervisor and the tools. Only this module writes and reads them.

    pulse.json         Pulse                 once a second at most
    partitions.json    PartitionLags         every two seconds at most; only the page reads it
    ending-RUN.json    ExitReport            at the end of a run that a supervisor has started
    brokers/VIEW.json  Unreachable, Backlog  once a second, by a driver: ``kfetch.brokerReport``

Each is an object of JSON in the job's directory, and only its newest state counts. A report is
renamed into its place, so a reader sees a whole one. On a full disk the older one stays, and the
run goes on. Nothing waits for the disk: after a power failure a report may be empty. A missing or
damaged report is None. Readers skip keys that they do not know.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from kfetch_jobs.config import Job
from kfetch_jobs.progress.broker_report import (
    Backlog,
    Unreachable,
    parse_backlog,
    parse_unreachable,
    sum_backlogs,
)
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.partition_lags import PartitionLags
from kfetch_jobs.util.files import write_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger("kfetch_jobs.run")

_BYTES_MAX = 8 << 20
"""The lags of 20,000 partitions take 0.5 MB. A longer file is damage."""
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The query's last sign of life."""

    at: float
    """When the query reported, or tasks of its micro-batch finished: seconds since 1970."""
    batch: int | None
    """The last micro-batch that this run committed."""
    lag: int | None = None
    """Offsets behind after that micro-batch; None while the lag is unknown."""
    lag_s: float = 0.0
    """The next offset had waited at least this long, in seconds."""
    query: str = ""
    """Spark's id of the query, empty at first. The agents know the query by the same id."""

    @property
    def is_idle(self) -> bool:
        """Whether the query has had nothing to read since its start."""
        return self.batch is None and self.lag == 0


def write_pulse(directory: Path, pulse: Pulse) -> None:
    """Write the pulse into a job's directory.

    It has these keys alone: a supervisor of the release before would take one with more for none.
    """
    _write(directory / "pulse.json", pulse)


def read_pulse(directory: Path, since_s: float = 0.0) -> Pulse | None:
    """Returns the pulse of a run that began at ``since_s`` (seconds since 1970)."""
    return _read(directory / "pulse.json", _PULSE.validate_python, since_s)


_PULSE = TypeAdapter(Pulse)
_LAGS = TypeAdapter(PartitionLags)


def write_partition_lags(directory: Path, lags: PartitionLags) -> None:
    """Write the lag of each partition into a job's directory."""
    _write(directory / "partitions.json", lags, indent=None)


def read_partition_lags(directory: Path) -> PartitionLags | None:
    """Returns the lag of each partition of a job at its query's last report."""
    return _read(directory / "partitions.json", _LAGS.validate_python, 0.0)


def exit_report_path(directory: Path, run: int) -> Path:
    """Returns the path of a run's exit report. Another run may be refused while one goes on."""
    return directory / f"ending-{run}.json"


def write_exit_report(path: Path, report: ExitReport) -> None:
    """Write how the run has ended."""
    _write(path, report)


def read_exit_report(path: Path) -> ExitReport:
    """Returns the report of a run. Without a readable file, the run's process was killed."""
    killed = "the process was killed, or ended without a report"
    return _read(path, _parse_exit_report) or ExitReport(kind=ExitKind.KILLED, sentence=killed)


def _parse_exit_report(document: Any) -> ExitReport:
    # A path in the sentence may have bytes that are not UTF-8, and SQLite refuses those.
    sentence = document.get("sentence", "").encode(errors="backslashreplace").decode()
    kind, interrupted = ExitKind(document["kind"]), bool(document.get("interrupted"))
    return ExitReport(kind=kind, sentence=sentence, interrupted=interrupted)


def broker_report_path(directory: Path, view: str) -> Path:
    """Returns the path of the report of a source's driver. The driver writes it itself."""
    return directory / "brokers" / f"{view}.json"


def read_unreachable(job: Job, since_s: float) -> tuple[Unreachable, ...]:
    """Returns the unreachable brokers of a run that began at ``since_s`` (seconds since 1970).

    Reports of earlier runs, and unreadable ones, have no brokers.
    """
    brokers = [one for brokers in _of_views(job, since_s, parse_unreachable) for one in brokers]
    by_name = {one.name: one for one in reversed(brokers)}
    return tuple(
        replace(one, cause=job.user_sentence(one.cause)) for one in reversed(by_name.values())
    )


def read_backlog(job: Job, since_s: float) -> Backlog | None:
    """Returns the backlog of a run that began at ``since_s``, the sum of its sources.

    Returns None until each source has one.
    """
    backlogs = _of_views(job, since_s, parse_backlog)
    complete = backlogs and len(backlogs) == len(job.file.views())
    return sum_backlogs(backlogs) if complete else None


def _of_views(job: Job, since_s: float, parse: Callable[[Any], _Value]) -> list[_Value]:
    paths = (broker_report_path(job.directory, view) for view in job.file.views())
    found = (_read(path, parse, since_s) for path in paths)
    return [one for one in found if one is not None]


def _write(path: Path, report: DataclassInstance, indent: int | None = 2) -> None:
    try:
        write_json(path, asdict(report), indent)
    except OSError as cause:  # a full disk must not end a run
        log.warning("%s cannot be written: %s", path, cause)


def _read(
    path: Path, parse: Callable[[Any], _Value], since_s: float | None = None
) -> _Value | None:
    """Returns the report; None if it is missing, damaged, or from before ``since_s``."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_BYTES_MAX))
        is_current = since_s is None or document["at"] >= since_s
        return parse(document) if is_current else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
