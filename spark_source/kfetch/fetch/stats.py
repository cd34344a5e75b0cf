"""Adding up what a query's fetch sessions cost: requests, bytes, sessions, records, waits.

Kept per Python worker, or agent, and query. With the option ``kfetch.statsDirectory`` each process
keeps its own file there current, so that a run can be added up afterwards, even one that was
killed.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kfetch.fetch.events import (
    Connected,
    Decoded,
    Fact,
    Replied,
    Requested,
    SessionMoved,
    Skipped,
    Starved,
)
from kfetch.session.transitions import SessionEvent

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStats:
    """Totals since the query's first read in this process. Sizes in bytes, on the wire."""

    full_requests: int = 0
    """Requests that named every partition."""
    full_request_bytes: int = 0
    incremental_requests: int = 0
    """Requests that named only what changed."""
    incremental_request_bytes: int = 0
    incremental_partitions: int = 0
    """Partitions that incremental requests named or forgot."""
    reply_bytes: int = 0
    wait_s: float = 0.0
    """Between a request and its reply, in seconds; more than one broker may be waited for."""
    records: int = 0
    batches_skipped: int = 0
    """Damaged record batches that were left out (kfetch.onCorruptBatch=skip)."""
    decode_s: float = 0.0
    starved_s: float = 0.0
    """Waiting for memory (``kfetch.agent.memory``) before a request."""
    sessions_opened: int = 0
    sessions_lost: int = 0
    """Evicted by the broker, or gone with it."""
    sessions_refused: int = 0
    """The broker's session cache was full."""
    sessions_closed: int = 0
    """By us."""
    connections_opened: int = 0

    def __add__(self, other: FetchStats) -> FetchStats:
        return FetchStats(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """One broker's fetch session of a query."""

    broker: str
    state: str
    """Of ``kfetch.session.transitions.SessionState``."""
    session_id: int
    epoch: int
    """Both for the next request."""
    partitions: int
    """How many the session holds."""


_MOVES = {
    SessionEvent.OPENED: "sessions_opened",
    SessionEvent.LOST: "sessions_lost",
    SessionEvent.REFUSED: "sessions_refused",
    SessionEvent.CLOSED: "sessions_closed",
}


class Totals:
    """A sink that adds facts up. Any thread may tell it."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, fact: Fact) -> None:
        """Count one fact."""
        with self._lock:
            self._sums.update(_counted(fact))

    def stats(self) -> FetchStats:
        """The totals so far."""
        with self._lock:
            return FetchStats(**self._sums)


def _counted(fact: Fact) -> Mapping[str, float]:
    """Which totals a fact raises, and by how much."""
    match fact:
        case Requested(full=True):
            return {"full_requests": 1, "full_request_bytes": fact.size}
        case Requested():
            return {
                "incremental_requests": 1,
                "incremental_request_bytes": fact.size,
                "incremental_partitions": fact.named + fact.forgotten,
            }
        case Replied():
            return {"reply_bytes": fact.size, "wait_s": fact.wait_s}
        case SessionMoved(event=event):
            return {_MOVES[event]: 1} if event in _MOVES else {}
        case Decoded():
            return {"records": fact.records, "decode_s": fact.seconds}
        case Skipped():
            return {"batches_skipped": 1}
        case Starved():
            return {"starved_s": fact.seconds}
        case Connected():
            return {"connections_opened": 1}


def total(parts: Iterable[FetchStats]) -> FetchStats:
    """The sum of several processes' or brokers' totals."""
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
