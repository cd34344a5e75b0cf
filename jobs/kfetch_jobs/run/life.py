"""One run of a job in this process: from the lock to the ending.

Each committed micro-batch is a line in the job's ``progress.jsonl`` and a line for people. SIGTERM
and SIGINT end the job after the batch in flight; a second signal ends it at once. Nothing is
restarted here: that is the supervisor's work.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kfetch_jobs.checkpoints import backup
from kfetch_jobs.config import Job
from kfetch_jobs.jvm.spark import session
from kfetch_jobs.run import sink
from kfetch_jobs.run.alone import alone
from kfetch_jobs.run.ending import error_from
from kfetch_jobs.run.watch import Report, Watch, listener

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Outcome", "run"]


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
    dead_letters: int
    """Records that could not be decoded, in the table that the job names for them."""


def run(job: Job, report: Report) -> Outcome:
    """Run to the end. Raises JobsError, one sentence, when the job fails."""
    _make_directories(job)
    started = time.monotonic()
    log = job.directory / "spark.log"
    with alone(job), _stop_signal() as stop:
        backup.check_whole(job)
        with session(
            job.spark, name=job.name, log=log, code=job.code, redacted=job.redacted
        ) as spark:
            watch = Watch(job, report)
            with _failures(job, stop, log):
                spark.streams.addListener(listener(watch))
                query = sink.start(spark, job, watch.counts)
                _wait(job, query, watch, stop)
        return Outcome(
            job=job.name,
            stopped=stop.is_set(),
            batches=watch.batches,
            rows=watch.rows,
            seconds=round(time.monotonic() - started, 3),
            lag=watch.lag,
            dead_letters=watch.dead_letters,
        )


def _make_directories(job: Job) -> None:
    job.directory.mkdir(parents=True, exist_ok=True)
    for source in job.file.views().values():
        if directory := source.options.get("kfetch.statsDirectory"):
            Path(directory).mkdir(parents=True, exist_ok=True)


def _wait(job: Job, query: StreamingQuery, watch: Watch, stop: threading.Event) -> None:
    while not stop.is_set() and query.isActive:
        watch.ended.wait(0.25)
    if stop.is_set():
        _finish_batch(query, watch, job.file.stopWithin)
        query.stop()
    # Raises what ended the query, if that was an error.
    query.awaitTermination()
    # The listener hears of the last batch a little later than the query's end.
    watch.ended.wait(5)


def _finish_batch(query: StreamingQuery, watch: Watch, patience_s: float) -> None:
    batches, deadline = watch.batches, time.monotonic() + patience_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if watch.batches > batches:
            return
        time.sleep(0.05)


@contextmanager
def _failures(job: Job, stop: threading.Event, log: Path) -> Iterator[None]:
    try:
        yield
    except Exception as cause:
        # Ctrl-C reaches Spark's Python processes too: what they say then is no failure.
        if not stop.is_set():
            raise error_from(
                cause, f"job {job.name} failed", log, job.redacted, job.code
            ) from cause


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
