"""Counting what a query's fetch sessions cost: requests, bytes, sessions, records.

Frozen facts, kept per Python worker and query. With the option ``kfetch.statsDirectory`` each
worker keeps its own file there current, so that a run can be added up afterwards, even one that was
killed.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStats:
    """Totals since the query's first read in this worker. Sizes in bytes, on the wire."""

    full_requests: int = 0
    """Requests that named every partition."""
    full_request_bytes: int = 0
    incremental_requests: int = 0
    """Requests that named only what changed."""
    incremental_request_bytes: int = 0
    reply_bytes: int = 0
    records: int = 0
    batches_skipped: int = 0
    """Damaged record batches that were left out (kfetch.onCorruptBatch=skip)."""
    sessions_opened: int = 0
    sessions_lost: int = 0
    """Evicted by the broker, or gone with it."""
    sessions_refused: int = 0
    """The broker's session cache was full."""
    connections_opened: int = 0

    def __add__(self, other: FetchStats) -> FetchStats:
        return FetchStats(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


def total(parts: Iterable[FetchStats]) -> FetchStats:
    """The sum of several workers' or brokers' totals."""
    return sum(parts, FetchStats())


def write(directory: str, query: str, stats: FetchStats) -> None:
    """Replace this worker's file. A full disk must not fail a query: it is logged."""
    target = Path(directory) / f"{query}-{os.getpid()}.json"
    draft = target.with_suffix(f".{threading.get_ident()}.tmp")  # tasks may end together
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(stats)))
        draft.replace(target)
    except OSError as cause:
        log.warning("fetch statistics can't be written to %s: %s", target, cause)


def read(directory: Path) -> FetchStats:
    """The sum over all workers that wrote into a directory, of all queries."""
    return total(FetchStats(**json.loads(path.read_text())) for path in directory.glob("*.json"))
