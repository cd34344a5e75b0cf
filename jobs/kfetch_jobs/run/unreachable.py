"""``brokers/VIEW.json``: the brokers that a run's sources cannot reach. A value and its reader.

The driver of each source writes its own file (the option ``kfetch.brokerReport``). ``kfetch
status``, the page and the metrics read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["Unreachable", "broker_report_path", "read_unreachable"]

_BYTES_MAX = 64 << 10
"""A report has an entry for each broker. A longer file is damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A broker that does not answer, or partitions without a leader."""

    name: str
    since_at: float
    """Seconds since 1970."""
    cause: str

    def __str__(self) -> str:
        since = f"{datetime.fromtimestamp(self.since_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.name} unreachable since {since}: {self.cause}"


def broker_report_path(directory: Path, view: str) -> Path:
    """Return the path of a source's report in a job's directory."""
    return directory / "brokers" / f"{view}.json"


def read_unreachable(
    directory: Path, views: Iterable[str], since_s: float
) -> tuple[Unreachable, ...]:
    """Return the unreachable brokers of a run that began at ``since_s`` (seconds since 1970).

    Reports of earlier runs, and unreadable ones, have no brokers.
    """
    brokers = [one for view in views for one in _read(broker_report_path(directory, view), since_s)]
    return tuple({one.name: one for one in reversed(brokers)}.values())[::-1]


def _read(path: Path, since_s: float) -> list[Unreachable]:
    try:
        with path.open() as file:
            document = json.loads(file.read(_BYTES_MAX))
        if document["at"] < since_s:
            return []
        return [
            Unreachable(
                name=str(one["name"]), since_at=float(one["since"]), cause=str(one["cause"])
            )
            for one in document["unreachable"]
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []
