"""``brokers/VIEW.json``: brokers that a run's sources cannot reach, and records that wait.

The driver of each source writes its own file (the option ``kfetch.brokerReport``). ``kfetch
status``, the page and the metrics read them. Values and their readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kfetch_jobs.config import Job
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.run.unreachable import Unreachable

_BYTES_MAX = 64 << 10
"""A report has an entry for each broker. A longer file is damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The records of a run that wait, by the log ends that its drivers saw last."""

    at: float
    """When they saw them: seconds since 1970."""
    behind: int
    """Offsets behind the planned micro-batch."""
    behind_since: float | None
    """Some of them have waited since then at least."""
    planned: int
    """Offsets of the planned micro-batch. They wait until it is committed."""
    planned_at: float
    end: int
    """The sum of the next offsets after it."""

    def lag(self, last: Batch | None, now: float) -> tuple[int, float]:
        """Return the offsets that wait, and how long at least, in seconds.

        ``last`` is the last micro-batch that the run has committed.
        """
        runs = last is None or last.end < self.end
        behind = self.behind + (self.planned if runs else 0)
        since = self.planned_at if runs and self.planned else self.behind_since
        return behind, max(0.0, now - since) if behind and since is not None else 0.0


def broker_report_path(directory: Path, view: str) -> Path:
    """Return the path of a source's report in a job's directory."""
    return directory / "brokers" / f"{view}.json"


def read_unreachable(job: Job, since_s: float) -> tuple[Unreachable, ...]:
    """Return the unreachable brokers of a run that began at ``since_s`` (seconds since 1970).

    Reports of earlier runs, and unreadable ones, have no brokers.
    """
    brokers = [one for brokers in _of_views(job, since_s, _unreachable) for one in brokers or ()]
    by_name = {one.name: one for one in reversed(brokers)}
    return tuple(
        replace(one, cause=job.in_own_words(one.cause)) for one in reversed(by_name.values())
    )


def read_backlog(job: Job, since_s: float) -> Backlog | None:
    """Return the backlog of a run that began at ``since_s``, the sum of its sources.

    Returns None until each source has one.
    """
    backlogs = _of_views(job, since_s, _backlog)
    known = [one for one in backlogs if one is not None]
    if not known or len(known) < len(backlogs):
        return None
    since = [one.behind_since for one in known if one.behind_since is not None]
    return Backlog(
        at=min(one.at for one in known),
        behind=sum(one.behind for one in known),
        behind_since=min(since, default=None),
        planned=sum(one.planned for one in known),
        planned_at=max(one.planned_at for one in known),
        end=sum(one.end for one in known),
    )


_Value = TypeVar("_Value")


def _of_views(job: Job, since_s: float, value: Callable[[Any], _Value]) -> list[_Value | None]:
    paths = (broker_report_path(job.directory, view) for view in job.file.views())
    return [_read(path, since_s, value) for path in paths]


def _read(path: Path, since_s: float, value: Callable[[Any], _Value]) -> _Value | None:
    try:
        with path.open() as file:
            document = json.loads(file.read(_BYTES_MAX))
        return value(document) if document["at"] >= since_s else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _unreachable(document: Any) -> list[Unreachable]:
    return [
        Unreachable(name=str(one["name"]), since_at=float(one["since"]), cause=str(one["cause"]))
        for one in document["unreachable"]
    ]


def _backlog(document: Any) -> Backlog:
    told = document["backlog"]
    since = told["behind_since"]
    return Backlog(
        at=float(document["at"]),
        behind=int(told["behind"]),
        behind_since=None if since is None else float(since),
        planned=int(told["planned"]),
        planned_at=float(told["planned_at"]),
        end=int(told["end"]),
    )
