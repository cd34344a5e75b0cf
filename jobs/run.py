"""Runs one job in this process until it ends, fails or is told to stop.

Each committed micro-batch is a line in the job's ``progress.jsonl`` and a line for people. SIGTERM
and SIGINT end the job after the batch in flight; a second signal ends it at once. Nothing is
restarted here: that is a supervisor's work.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import progress
from jobs.config import Job
from jobs.errors import JobsError, SparkError
from jobs.files import claimed
from jobs.progress import Batch
from jobs.spark import cause_of, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Outcome", "progress_file", "run"]

GRACE_S = 30
"""How long a batch in flight may take to end once the job is told to stop."""

Report = Callable[[Batch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, and what it did."""

    job: str
    stopped: bool
    """By a signal; else the query ended by itself."""
    batches: int
    rows: int
    seconds: float
    lag: int


def progress_file(job: Job) -> Path:
    """Where the job's progress is."""
    return job.directory / "progress.jsonl"


def run(job: Job, report: Report) -> Outcome:
    """Run to the end. Raises SparkError, one sentence, when the job fails."""
    _make_directories(job)
    started = time.monotonic()
    with _alone(job), _stop_signal() as stop:
        with session(job.spark, name=job.name, log=job.directory / "spark.log") as spark:
            watch = _Watch(progress_file(job), report)
            with _failures(job, stop):
                query = _start(spark, job, watch)
                _wait(query, watch, stop)
        return Outcome(
            job=job.name,
            stopped=stop.is_set(),
            batches=watch.batches,
            rows=watch.rows,
            seconds=round(time.monotonic() - started, 3),
            lag=watch.lag,
        )


@contextmanager
def _alone(job: Job) -> Iterator[None]:
    """Refuse to run beside another run: two queries on one checkpoint end each other."""
    path = job.directory / "lock"
    with claimed(path) as ours:
        if not ours:
            raise JobsError(
                f"job {job.name} runs here already (process {path.read_text() or '?'}): stop that "
                "run first, with SIGTERM"
            )
        yield


def _make_directories(job: Job) -> None:
    job.directory.mkdir(parents=True, exist_ok=True)
    if directory := job.file.source.options.get("kfetch.statsDirectory"):
        Path(directory).mkdir(parents=True, exist_ok=True)


def _start(spark: SparkSession, job: Job, watch: _Watch) -> StreamingQuery:
    spark.streams.addListener(_listener(watch))
    source = spark.readStream.format("kfetch").options(**job.source_options()).load()
    writer = (
        _transformed(spark, job, source)
        .writeStream.format(job.file.sink.format)
        .options(**job.file.sink.options)
        .option("checkpointLocation", str(job.checkpoint))
        .queryName(job.name)
        .trigger(**job.file.trigger.arguments())
    )
    return writer.start(str(job.table))


def _transformed(spark: SparkSession, job: Job, source: DataFrame) -> DataFrame:
    if job.file.transform is None:
        return source
    source.createOrReplaceTempView("source")
    return spark.sql(job.file.transform.sql)


class _Watch:
    """What the listener's thread has seen."""

    def __init__(self, path: Path, report: Report) -> None:
        self._path = path
        self._report = report
        self.ended = threading.Event()
        self.batches = self.rows = self.lag = 0

    def seen(self, told: dict[str, Any]) -> None:
        """Keep one of Spark's progress objects; those of idle triggers are no batches."""
        if not told["sources"] or "addBatch" not in told["durationMs"]:
            return
        batch = progress.from_spark(told, time.time())
        progress.append(self._path, batch)
        self.batches += 1
        self.rows += batch.rows
        self.lag = batch.lag
        self._report(batch)


def _listener(watch: _Watch) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hands progress on. Nothing may raise here: it would only be a trace in a log."""

        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            watch.seen(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            watch.ended.set()

    return Listener()


def _wait(query: StreamingQuery, watch: _Watch, stop: threading.Event) -> None:
    while not stop.is_set() and query.isActive:
        watch.ended.wait(0.25)
    if stop.is_set():
        _finish_batch(query, watch)
        query.stop()
    # Raises what ended the query, if that was an error.
    query.awaitTermination()
    # The listener hears of the last batch a little later than the query's end.
    watch.ended.wait(5)


def _finish_batch(query: StreamingQuery, watch: _Watch) -> None:
    batches, deadline = watch.batches, time.monotonic() + GRACE_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if watch.batches > batches:
            return
        time.sleep(0.05)


@contextmanager
def _failures(job: Job, stop: threading.Event) -> Iterator[None]:
    try:
        yield
    except Exception as cause:
        # Ctrl-C reaches Spark's Python processes too: what they say then is no failure.
        if not stop.is_set():
            log = job.directory / "spark.log"
            raise SparkError(f"job {job.name} failed: {cause_of(cause)} (see {log})") from cause


@contextmanager
def _stop_signal() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second finds Python's own handlers."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def asked(number: int, frame: object) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, asked)
    try:
        yield stop
    finally:
        restore()
