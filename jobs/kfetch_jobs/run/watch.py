"""What Spark tells of a running query, kept in three files of the job's directory.

    progress.jsonl   a line for each micro-batch
    pulse.json       when the query last said anything, and how far behind it was
    partitions.json  how far behind each partition was

An idle query says so every ten seconds, so a pulse that stands still is a query that hangs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kfetch.admin.values import Lag, LagHistory
from kfetch_jobs.config import Job
from kfetch_jobs.progress import history as progress
from kfetch_jobs.progress.history import Batch
from kfetch_jobs.run import partitions
from kfetch_jobs.run.dead_letters import DeadLetterCounts
from kfetch_jobs.util.files import write_json

__all__ = ["Pulse", "Report", "Watch", "listener", "pulse_file", "read_pulse"]

Report = Callable[[Batch], None]

_PULSE_S = 1.0
"""The pulse is written so often at most: a fast query has twenty micro-batches a second."""

_PARTITIONS_S = 2.0
"""So often at most partitions.json: 10,000 partitions are 40 ms of this process."""

_SETTLED_S = 5.0
"""Idle for so long from its start on, a query has nothing to read; it tells every ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The query's last sign of life."""

    at: float
    """seconds since 1970"""
    batch: int | None
    """the last one that was committed in this run"""
    lag: int | None = None
    """offsets behind, after it; None while nobody knows"""
    lag_s: float = 0.0
    """for so long at least the next offset had been waiting"""
    query: str = ""
    """Spark's id of it, by which agents know it, too"""


def pulse_file(job: Job) -> Path:
    """Where the job's last sign of life is."""
    return job.directory / "pulse.json"


def read_pulse(path: Path) -> Pulse | None:
    """The pulse, or None when there is none."""
    try:
        return Pulse(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


class Watch:
    """What the listener's thread has seen."""

    def __init__(self, job: Job, report: Report) -> None:
        self._progress = progress.file_of(job.directory)
        self._pulse = pulse_file(job)
        self._report = report
        self._history = LagHistory()
        self._written = 0.0
        self._last: Batch | None = None
        self._idle_since: float | None = None
        self._query = ""
        self._partitions = partitions.file_of(job.directory)
        self._lags: list[Lag] = []
        """Those that partitions.json does not have yet."""
        self._lags_written = 0.0
        self.ended = threading.Event()
        self.batches = self.rows = self.lag = self.dead_letters = 0
        self.counts = DeadLetterCounts()
        """The dead letters of batches that nobody has told of yet."""

    def seen(self, told: dict[str, Any]) -> None:
        """Keep one of Spark's progress objects; those of idle triggers are no batches."""
        lags = self._lags = self._history.lags(told)
        self._query = str(told["id"])
        if told["sources"] and "addBatch" in told["durationMs"]:
            lag_s = max((lag.at_least_s for lag in lags), default=0.0)
            dead = self.counts.take(told["batchId"])
            self._batch(progress.from_spark(told, time.time(), lag_s, dead))
        self._live(time.time())

    def _batch(self, batch: Batch) -> None:
        progress.append(self._progress, batch)
        self.batches += 1
        self.rows += batch.rows
        self.dead_letters += batch.dead_letters
        self.lag = batch.lag
        self._last = batch
        self._report(batch)

    def idle(self) -> None:
        """The query says that there is nothing to read."""
        now = time.time()
        self._idle_since = self._idle_since or now
        self._live(now)

    def _live(self, now: float) -> None:
        if abs(now - self._written) >= _PULSE_S:
            self._written = now
            write_json(self._pulse, asdict(self._sign(now)))
        if self._lags and abs(now - self._lags_written) >= _PARTITIONS_S:
            self._lags_written = now
            partitions.write(self._partitions, self._lags, now)
            self._lags = []

    def _sign(self, now: float) -> Pulse:
        last = self._last
        if last is not None:
            return Pulse(
                at=now, batch=last.batch, lag=last.lag, lag_s=last.lag_s, query=self._query
            )
        # A query that has just begun is idle too, until its source has heard from the brokers.
        settled = self._idle_since is not None and now - self._idle_since >= _SETTLED_S
        return Pulse(at=now, batch=None, lag=0 if settled else None, query=self._query)


def listener(watch: Watch) -> Any:
    """Spark's listener around a watch."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hands progress on. Nothing may raise here: it would only be a trace in a log."""

        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            watch.seen(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            watch.idle()

        def onQueryTerminated(self, event: Any) -> None:
            watch.ended.set()

    return Listener()
