"""Brokers that a run's sources cannot reach, and records that wait: values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from kfetch_jobs.progress.batch import Batch

ELECTION_S = 2.0
"""A broker's restart, or a new leader, is no problem within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A broker that does not answer, or partitions without a leader."""

    name: str
    since_at: Annotated[float, Field(validation_alias="since")]
    """Seconds since 1970."""
    cause: str

    @property
    def is_whole_cluster(self) -> bool:
        """Whether no broker answers. Then the report has no other entry."""
        return self.name.startswith("every broker")

    def __str__(self) -> str:
        since = f"{datetime.fromtimestamp(self.since_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.name} unreachable since {since}: {self.cause}"


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
        """Returns the offsets that wait, and how long at least, in seconds.

        ``last`` is the last micro-batch that the run has committed.
        """
        runs = last is None or last.end < self.end
        behind = self.behind + (self.planned if runs else 0)
        since = self.planned_at if runs and self.planned else self.behind_since
        return behind, max(0.0, now - since) if behind and since is not None else 0.0


_UNREACHABLE = TypeAdapter(list[Unreachable])
_BACKLOG = TypeAdapter(Backlog)


def parse_unreachable(document: Any) -> list[Unreachable]:
    """Returns the unreachable brokers of a driver's report."""
    return _UNREACHABLE.validate_python(document["unreachable"])


def parse_backlog(document: Any) -> Backlog:
    """Returns the backlog of a driver's report. Raises TypeError if there is none yet."""
    return _BACKLOG.validate_python(document["backlog"] | {"at": document["at"]})


def sum_backlogs(backlogs: Sequence[Backlog]) -> Backlog:
    """Returns the backlog of a run from those of its sources."""
    since = [one.behind_since for one in backlogs if one.behind_since is not None]
    return Backlog(
        at=min(one.at for one in backlogs),
        behind=sum(one.behind for one in backlogs),
        behind_since=min(since, default=None),
        planned=sum(one.planned for one in backlogs),
        planned_at=max(one.planned_at for one in backlogs),
        end=sum(one.end for one in backlogs),
    )
