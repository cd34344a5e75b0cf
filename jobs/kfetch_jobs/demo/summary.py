"""What was produced against what was counted: nothing here looks anything up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kfetch.fetch.stats import FetchStats

__all__ = ["Counts", "Kill", "Summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Events on their way: each a plain count, taken where its name says."""

    produced: int
    """Acknowledged by the broker."""
    in_log: int
    """The sum of the partitions' end offsets, as the broker told them."""
    rows: int
    """Rows of the Delta table."""
    positions: int
    """Different (partition, offset) among the rows."""
    events: int
    """Different event_id among the rows, of those that were produced."""

    @property
    def lost(self) -> int:
        """Acknowledged and not in the table: by event, or by offset, whichever is worse."""
        return max(0, self.produced - self.events, self.in_log - self.positions)

    @property
    def duplicated(self) -> int:
        """Rows beyond one per event and per offset."""
        return max(self.rows - self.events, self.rows - self.positions)

    @property
    def exact(self) -> bool:
        """Every event once."""
        return self.lost == self.duplicated == 0 and self.produced == self.in_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The crash. Times in seconds since 1970."""

    at: float
    restarted: float
    processes: int
    batch: int | None
    """The micro-batch in flight; None if the job was between two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The demo's result."""

    counts: Counts
    fetches: FetchStats
    kill: Kill
    producing_s: float
    landing_s: float
    """From the first event produced to the last one in the table, the crash included."""
    total_s: float
    picture: str
    kept_directory: str | None
    """The directory with everything, if it was kept."""

    @property
    def landed_per_s(self) -> float:
        """Rows a second over the whole run, the crash included."""
        return self.counts.rows / self.landing_s if self.landing_s else 0.0

    @property
    def produced_per_s(self) -> float:
        """Events acknowledged a second."""
        return self.counts.produced / self.producing_s if self.producing_s else 0.0

    @property
    def full_bytes(self) -> float:
        """Mean size of a full fetch request."""
        return _mean(self.fetches.full_request_bytes, self.fetches.full_requests)

    @property
    def incremental_bytes(self) -> float:
        """Mean size of an incremental fetch request."""
        return _mean(self.fetches.incremental_request_bytes, self.fetches.incremental_requests)

    def to_json(self) -> dict[str, Any]:
        """One flat object, for scripts."""
        counts = self.counts
        return {
            "produced": counts.produced,
            "in_delta": counts.rows,
            "lost": counts.lost,
            "duplicated": counts.duplicated,
            "produced_per_s": round(self.produced_per_s),
            "landed_per_s": round(self.landed_per_s),
            "fetch_requests": self.fetches.full_requests + self.fetches.incremental_requests,
            "full_request_bytes_mean": round(self.full_bytes, 1),
            "incremental_request_bytes_mean": round(self.incremental_bytes, 1),
            **asdict(self.fetches),
            "killed_processes": self.kill.processes,
            "killed_in_batch": self.kill.batch,
            "seconds": round(self.total_s, 1),
            "picture": self.picture,
            "kept": self.kept_directory,
        }

    def rows(self) -> list[tuple[str, str]]:
        """The table for people."""
        counts, fetches = self.counts, self.fetches
        during = "between two batches" if self.kill.batch is None else f"in batch {self.kill.batch}"
        return [
            ("events produced", f"{counts.produced:,}"),
            ("rows in Delta", f"{counts.rows:,}"),
            ("lost", f"{counts.lost:,}"),
            ("duplicated", f"{counts.duplicated:,}"),
            ("processes killed", f"{self.kill.processes} {during}"),
            ("produced", f"{self.produced_per_s:,.0f} rows/s"),
            ("landed, crash included", f"{self.landed_per_s:,.0f} rows/s"),
            ("fetch requests, full", f"{fetches.full_requests:,}, {self.full_bytes:,.0f} B each"),
            (
                "fetch requests, incremental",
                f"{fetches.incremental_requests:,}, {self.incremental_bytes:,.0f} B each",
            ),
            ("fetch sessions opened", f"{fetches.sessions_opened:,}"),
        ]


def _mean(total: int, count: int) -> float:
    return total / count if count else 0.0
