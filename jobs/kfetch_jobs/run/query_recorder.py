"""Records the reports of a running query in three files of the job's directory.

    progress.jsonl   a line for each micro-batch
    pulse.json       the query's last sign of life, and its lag (``progress/reports.py``)
    partitions.json  the lag of each partition

An idle query reports every ten seconds, and finished tasks of a long micro-batch count as reports.
So a pulse that gets older belongs to a query that hangs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kfetch.admin.query import Lag, LagHistory
from kfetch_jobs.checkpoints.origin import note_run
from kfetch_jobs.checkpoints.topic_history import TopicIds, offsets_topic_ids
from kfetch_jobs.config import Job
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.partition_lags import summarize
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.progress.reports import Pulse, write_partition_lags, write_pulse
from kfetch_jobs.progress.spark_progress import batch_from_spark, end_offsets
from kfetch_jobs.run.batch_counts import BatchCounts

ReportBatch = Callable[[Batch], None]

_PULSE_S = 1.0
"""The shortest time between two pulses: a fast query has twenty micro-batches a second."""

_PARTITIONS_S = 2.0
"""The shortest time between two partitions.json: 10,000 partitions take this process 40 ms."""

_SETTLED_S = 5.0
"""A query that is idle for this long from its start on has nothing to read."""


class QueryRecorder:
    """Takes Spark's reports on the listener's thread, writes the files and sums up the run."""

    def __init__(self, job: Job, report: ReportBatch) -> None:
        self._job = job
        self._report = report
        self._lag_history = LagHistory()
        self._lock = threading.Lock()
        """The listener's thread and the run's own thread write the pulse."""
        self._pulse_written = 0.0
        self._reported_s = 0.0
        """When the query last reported."""
        self._last_batch: Batch | None = None
        self._idle_since: float | None = None
        self._query = ""
        self._topic_ids: TopicIds | None = None
        """The ids of the topics in the last micro-batch."""
        self._unwritten_lags: list[Lag] = []
        """Lags that partitions.json does not have yet."""
        self._lags_written = 0.0
        self.ended = threading.Event()
        self.batches = self.rows = self.lag = self.dead_letters = 0
        self.counts = BatchCounts()
        """Counts of micro-batches that Spark has not reported yet."""

    @property
    def last_number(self) -> int:
        """The number of the last reported micro-batch; -1 before the first one of the run."""
        return -1 if self._last_batch is None else self._last_batch.batch

    def record_start(self, query: str) -> None:
        """Record that the query has started. ``query`` is Spark's id of it."""
        self._query = query
        self._write_files(time.time())

    def record_progress(self, progress: dict[str, Any]) -> None:
        """Record one of Spark's progress reports. Reports of idle triggers are not micro-batches.

        ``progress`` is the JSON of StreamingQueryProgress.
        """
        progress = _counted_once(progress, self.counts)
        lags = self._unwritten_lags = self._lag_history.lags(progress)
        if is_batch(progress):
            lag_s = max((lag.at_least_s for lag in lags), default=0.0)
            letters = self.counts.take(progress["batchId"])
            self._note_topics(offsets_topic_ids(end_offsets(progress)))
            self._record_batch(batch_from_spark(progress, time.time(), lag_s, *letters))
        self._reported_s = now = time.time()
        self._write_files(now)

    def _record_batch(self, batch: Batch) -> None:
        self.batches += 1
        self.rows += batch.rows
        batch = replace(batch, run_batches=self.batches, run_rows=self.rows)
        append_entry(self._job.directory, batch)
        self.dead_letters += batch.dead_letters
        self.lag = batch.lag
        self._last_batch = batch
        self._report(batch)

    def _note_topics(self, ids: TopicIds) -> None:
        """Note the first micro-batch, and each one with a topic that was created again."""
        if ids != self._topic_ids:
            note_run(self._job, ids)
            self._topic_ids = ids

    def record_idle(self) -> None:
        """Record that the query has nothing to read."""
        now = time.time()
        self._idle_since = self._idle_since or now
        self._reported_s = now
        self._write_files(now)

    def record_tasks(self) -> None:
        """Record that tasks of the running micro-batch have finished. Any thread may call it."""
        with self._lock:
            self._write_pulse(time.time())

    def _write_files(self, now: float) -> None:
        with self._lock:
            self._write_pulse(now)
        if self._unwritten_lags and abs(now - self._lags_written) >= _PARTITIONS_S:
            self._lags_written = now
            write_partition_lags(self._job.directory, summarize(self._unwritten_lags, now))
            self._unwritten_lags = []

    def _write_pulse(self, now: float) -> None:
        if abs(now - self._pulse_written) >= _PULSE_S:
            self._pulse_written = now
            write_pulse(self._job.directory, self._pulse(now))

    def _pulse(self, now: float) -> Pulse:
        last = self._last_batch
        if last is not None:
            waited_s = last.lag_s + max(0.0, now - self._reported_s)
            return Pulse(at=now, batch=last.batch, lag=last.lag, lag_s=waited_s, query=self._query)
        # A new query is idle too, until its source has an answer from the brokers.
        settled = self._idle_since is not None and now - self._idle_since >= _SETTLED_S
        return Pulse(at=now, batch=None, lag=0 if settled else None, query=self._query)


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Returns whether a report is of a micro-batch. An idle trigger has the next one's number."""
    return bool(progress["sources"]) and "addBatch" in progress["durationMs"]


def _counted_once(progress: dict[str, Any], counts: BatchCounts) -> dict[str, Any]:
    """Returns a progress report in which each record counts once.

    If Spark reads the query's only source several times, all read the same records, and only the
    first one stays.
    """
    rows = progress["numInputRows"]
    if is_batch(progress):
        rows = counts.take_rows(progress["batchId"], rows)
    sources = progress["sources"] if counts.reads == 1 else progress["sources"][:1]
    return progress | {"numInputRows": rows, "sources": sources}


def query_listener(recorder: QueryRecorder, name: str) -> Any:
    """Returns a listener for Spark that passes the reports of the query ``name`` to the recorder.

    A transform may start other queries in the same session, even before the job's.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Passes reports on. An exception in here would only be a traceback in Spark's log."""

        query = ""

        def onQueryStarted(self, event: Any) -> None:
            if event.name == name:  # no two running queries of a session have one name
                self.query = str(event.id)
                recorder.record_start(self.query)

        def onQueryProgress(self, event: Any) -> None:
            progress = json.loads(event.progress.json)
            if progress["id"] == self.query:
                recorder.record_progress(progress)

        def onQueryIdle(self, event: Any) -> None:
            if str(event.id) == self.query:
                recorder.record_idle()

        def onQueryTerminated(self, event: Any) -> None:
            if str(event.id) == self.query:
                recorder.ended.set()

    return Listener()
