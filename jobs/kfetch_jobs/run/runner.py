"""One run of a job in this process, from its lock to its end.

The run adds a line to ``progress.jsonl`` for each committed micro-batch, and reports the batch to
its caller. SIGTERM and SIGINT end the run after the running batch; a second signal ends it at once.
Only the supervisor restarts jobs.
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

from kfetch.errors import LeaseLost
from kfetch.storage.permission import granting
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.fresh_start import check_fresh_start
from kfetch_jobs.config import Job
from kfetch_jobs.jvm.spark import kill_jvm, session
from kfetch_jobs.progress.reports import read_unreachable
from kfetch_jobs.progress.term_file import TermFile
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.dataframes import PERMISSION
from kfetch_jobs.run.job_lock import Fence, hold_job
from kfetch_jobs.run.query_recorder import QueryRecorder, ReportBatch, is_batch, query_listener
from kfetch_jobs.run.spark_errors import job_error
from kfetch_jobs.run.start_checks import check_new_query, check_origin, check_replay
from kfetch_jobs.run.straight import needs_delta
from kfetch_jobs.run.watching import OutageLog, TaskProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_TASKS_S = 2.0
"""How often a run asks Spark for finished tasks, in seconds: a few calls of the JVM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, and how much it read."""

    job: str
    stopped: bool
    """A signal stopped the run; else the query ended by itself."""
    batches: int
    rows: int
    seconds: float
    lag: int
    dead_letters: int
    """Records that could not be decoded. They are in the job's table of dead letters."""


def run(job: Job, report: ReportBatch, term: TermFile | None = None) -> RunResult:
    """Run a job to its end. Raises JobsError with one sentence if the job fails.

    Raises the source's error if the brokers refuse the job before Spark starts.

    Raises ConfigError if the checkpoint's runs had another environment or Kafka cluster, or if the
    job has no offsets although it, or a renamed job, has run before.

    ``report`` gets each committed micro-batch. ``term``: see ``hold_job``.
    """
    check_fresh_start(job)  # before there is a directory in the way of the former one
    _make_directories(job)
    started = time.monotonic()
    log = job.directory / "spark.log"
    with (
        hold_job(job, f"run of job {job.name}", term) as fence,
        granting(fence.check) as permission,
        _stop_signal() as stop,
    ):
        backup.check_no_interrupted_move(job)
        compared = check_origin(job)
        check_replay(job)
        with session(
            job.spark,
            name=job.name,
            log=log,
            code=job.code,
            redacted=job.redacted,
            delta=needs_delta(job),
        ) as spark:
            recorder = QueryRecorder(job, report)
            with _query_errors(job, stop, log):
                if not compared:
                    check_origin(job)
                check_new_query(spark, job)
                spark.streams.addListener(query_listener(recorder, job.name))
                fence.check()
                spark.conf.set(PERMISSION, str(permission))
                query = delta_sink.start(spark, job, fence.check, recorder.counts)
                tasks = TaskProgress(spark.sparkContext.statusTracker())
                _wait(job, query, recorder, stop, tasks, fence)
        return RunResult(
            job=job.name,
            stopped=stop.is_set(),
            batches=recorder.batches,
            rows=recorder.rows,
            seconds=round(time.monotonic() - started, 3),
            lag=recorder.lag,
            dead_letters=recorder.dead_letters,
        )


def _make_directories(job: Job) -> None:
    job.directory.mkdir(parents=True, exist_ok=True)
    for directory in job.statistics:
        Path(directory).mkdir(parents=True, exist_ok=True)


def _wait(
    job: Job,
    query: StreamingQuery,
    recorder: QueryRecorder,
    stop: threading.Event,
    tasks: TaskProgress,
    fence: Fence,
) -> None:
    looked, began = time.monotonic(), time.time()
    outages = OutageLog(lambda: read_unreachable(job, began))
    while not stop.is_set() and query.isActive:
        recorder.ended.wait(0.25)
        _check_fence(fence)
        if time.monotonic() - looked >= _TASKS_S:
            looked = time.monotonic()
            outages.look(time.time())
            if tasks.advanced():
                recorder.record_tasks()
    if stop.is_set():
        _finish_batch(query, recorder, job.file.stopWithin, fence)
        query.stop()
    # Raises the query's error, if it had one.
    query.awaitTermination()
    # Spark reports the last batch a little after the query's end.
    recorder.ended.wait(5)


def _check_fence(fence: Fence) -> None:
    """End the JVM at once if another process may write. Raises LeaseLost then.

    That is as safe as any crash, and a query that stops by itself could still write.
    """
    if trouble := fence.trouble():
        kill_jvm()
        raise LeaseLost(trouble, action="the run has stopped, because another one may go on")


def _finish_batch(
    query: StreamingQuery, recorder: QueryRecorder, timeout_s: float, fence: Fence
) -> None:
    """Wait until the recorder has the micro-batch that runs now, or until no trigger runs."""
    deadline = time.monotonic() + timeout_s
    last = query.lastProgress  # the recorder may not have it yet
    # An idle trigger has the number of the next micro-batch.
    running = 0 if last is None else last["batchId"] + (1 if is_batch(last) else 0)
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if recorder.last_number >= running:
            return
        _check_fence(fence)
        time.sleep(0.05)


@contextmanager
def _query_errors(job: Job, stop: threading.Event, log: Path) -> Iterator[None]:
    try:
        yield
    except Exception as cause:
        # Ctrl-C reaches Spark's Python processes too. Their errors are no failure of the job.
        if not stop.is_set():
            raise job_error(
                cause, f"job {job.name} failed", log, job.user_sentence, job.code
            ) from cause


@contextmanager
def _stop_signal() -> Iterator[threading.Event]:
    """Yields an event that the first SIGTERM or SIGINT sets. Python handles the second one."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def request_stop(number: int, frame: object) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, request_stop)
    try:
        yield stop
    finally:
        restore()
