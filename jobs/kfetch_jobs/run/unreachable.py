"""A broker that a run cannot reach: a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

ELECTION_S = 2.0
"""A broker's restart, or a new leader, is no problem within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A broker that does not answer, or partitions without a leader."""

    name: str
    since_at: float
    """Seconds since 1970."""
    cause: str

    @property
    def is_whole_cluster(self) -> bool:
        """Whether no broker answers. Then the report has no other entry."""
        return self.name.startswith("every broker")

    def __str__(self) -> str:
        since = f"{datetime.fromtimestamp(self.since_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.name} unreachable since {since}: {self.cause}"
