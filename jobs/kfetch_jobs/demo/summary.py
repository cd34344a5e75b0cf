"""Compares produced events with counted rows. It only computes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kfetch.admin.query import FetchStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many events there are at each place on their way."""

    produced: int
    """Events that the broker has acknowledged."""
    in_log: int
    """The sum of the partitions' log ends, from the broker."""
    rows: int
    """Rows of the Delta table."""
    positions: int
    """Different (partition, offset) among the rows."""
    events: int
    """Different event_id among the rows, of those that were produced."""

    @property
    def lost(self) -> int:
        """Acknowledged events that the table lacks, by event or by offset: the larger number."""
        return max(0, self.produced - self.events, self.in_log - self.positions)

    @property
    def duplicated(self) -> int:
        """Rows beyond one per event and per offset."""
        return max(self.rows - self.events, self.rows - self.positions)

    @property
    def exact(self) -> bool:
        """Whether the table has each event once."""
        return self.lost == self.duplicated == 0 and self.produced == self.in_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """When and where the demo killed the job. Times are seconds since 1970."""

    at: float
    restarted: float
    processes: int
    batch: int | None
    """The running micro-batch; None if the job was between two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of the demo."""

    counts: Counts
    fetches: FetchStats
    kill: Kill
    producing_s: float
    landing_s: float
    """Time from the first produced event to the last row in the table, the crash included."""
    total_s: float
    plot: tuple[str, ...] = ()
    """The curves as lines of text."""
    kept_directory: str | None
    """The directory with data and logs, if the user keeps it."""

    @property
    def landed_per_s(self) -> float:
        """Rows per second over the whole run, the crash included."""
        return self.counts.rows / self.landing_s if self.landing_s else 0.0

    @property
    def produced_per_s(self) -> float:
        """Acknowledged events per second."""
        return self.counts.produced / self.producing_s if self.producing_s else 0.0

    @property
    def full_bytes(self) -> float:
        """The mean size of a full fetch request, in bytes."""
        return _mean(self.fetches.full_request_bytes, self.fetches.full_requests)

    @property
    def incremental_bytes(self) -> float:
        """The mean size of an incremental fetch request, in bytes."""
        return _mean(self.fetches.incremental_request_bytes, self.fetches.incremental_requests)

    def to_json(self) -> dict[str, Any]:
        """Returns one flat object, for scripts."""
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
            "kept": self.kept_directory,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Returns names and values of the table for people."""
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
