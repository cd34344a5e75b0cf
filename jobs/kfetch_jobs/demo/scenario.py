"""What the demo does, in order. At any end it ends every process that it has started.

1. It starts a Kafka broker and makes the topic.
2. It starts the job: ``kfetch run``.
3. It produces click events at a steady rate.
4. Midway, in a micro-batch, it sends SIGKILL to all processes of the job.
5. It starts the job again, from its checkpoint.
6. It waits until all events are in the table. It fails if there is no progress.
7. It stops the job and counts every event.
8. It prints a table, and the curves as text.
9. On request it runs the job under a supervisor, and opens the supervisor's page.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfetch.admin import statistics
from kfetch.admin.checkpoint import batch_numbers
from kfetch.admin.query import FetchStats
from kfetch_jobs import config
from kfetch_jobs.config import Job
from kfetch_jobs.demo import page
from kfetch_jobs.demo.producer import Producer, count_events, create_topic
from kfetch_jobs.demo.screen import Screen
from kfetch_jobs.demo.settings import Settings
from kfetch_jobs.demo.summary import Counts, Kill, Summary
from kfetch_jobs.demo.terminal_plot import curves, plot
from kfetch_jobs.demo.worker import Worker
from kfetch_jobs.errors import DemoError
from kfetch_jobs.jvm.spark import session
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.progress import progress_file as progress

TICK_S = 0.1
IN_FLIGHT_S = 15
"""How long the demo waits for a running micro-batch: in one, a kill does most harm."""

_COUNT = """
SELECT count(*) AS rows,
       count(DISTINCT partition, offset) AS positions,
       count(DISTINCT event_id) FILTER (WHERE event_id >= 0 AND event_id < {produced}) AS events
FROM {{table}}
"""


def play(settings: Settings, screen: Screen, report: Callable[[Summary], None]) -> Summary:
    """Run the demo. Returns the summary, which tells lost events too.

    Calls ``report`` with the summary before it opens the page. Raises JobsError if a part of the
    demo fails.
    """
    began = time.monotonic()
    with _working_directory(settings) as directory, ExitStack() as ends:
        if settings.keep:
            screen.print_line(f"data and logs stay in {directory}")
        screen.print_line("starting Kafka …")
        cluster = ends.enter_context(Cluster.start(directory / "kafka"))
        scenario = _Scenario(settings, screen, directory, cluster.bootstrap_servers)
        ends.callback(scenario.end)
        kill = scenario.run()
        in_log = count_events(cluster.bootstrap_servers, scenario.topic, settings.partitions)
        summary = scenario.summary(kill, in_log=in_log, began=began)
        report(summary)
        if settings.open_page:
            scenario.open_page()
        return summary


@contextmanager
def _working_directory(settings: Settings) -> Iterator[Path]:
    """A directory for data and logs. It stays if the user keeps it, or if the demo fails."""
    directory = Path(tempfile.mkdtemp(prefix="kfetch-demo-"))
    keep = settings.keep
    try:
        yield directory
    except DemoError as error:
        keep = True
        raise DemoError(f"{error.message}; data and logs stay in {directory}") from error
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


class _Scenario:
    """The job and the producer of one demo."""

    def __init__(self, settings: Settings, screen: Screen, directory: Path, bootstrap: str) -> None:
        self.settings = settings
        self.screen = screen
        self.directory = directory
        self.bootstrap = bootstrap
        self._variables = settings.variables(bootstrap, directory / "storage")
        self._project = config.load(settings.project, os.environ | self._variables)
        self.job = self._project.job(settings.job)
        self.topic = _topic(self.job)
        self._worker: Worker | None = None
        self.producer = Producer(
            bootstrap,
            self.topic,
            partitions=settings.partitions,
            rate=settings.rate,
            total=settings.events,
        )

    def end(self) -> None:
        """End the producer, and kill the job."""
        self.producer.stop()
        if self._worker is not None:
            self._worker.kill()

    def run(self) -> Kill:
        """Run the job and the producer until all events are in the table."""
        create_topic(self.bootstrap, self.topic, self.settings.partitions)
        self._start_job("starting the job: kfetch run …")
        self.producer.start()
        self._wait_for(lambda: self._landed() > 0, "the job", self._landed)
        self.screen.print_line(
            f"producing {self.settings.rate:,} events a second to {self.topic} …"
        )
        self.producer.go()
        self._wait_midway()
        kill = self._kill()
        self._wait_for(lambda: not self.producer.is_alive(), "the producer", self._produced)
        produced = sum(self.producer.log_ends.values())
        self._wait_for(lambda: self._landed() >= produced, "the job", self._landed)
        self.screen.print_line("all events are in the table; stopping the job and counting …")
        self._alive().stop()
        return kill

    def _start_job(self, line: str) -> None:
        self.screen.print_line(line)
        log = self.job.directory / "run.log"
        self._worker = Worker(("run", self.job.name), self.settings.project, self._variables, log)

    def _alive(self) -> Worker:
        assert self._worker is not None
        return self._worker

    def _wait_midway(self) -> None:
        half = self.settings.events // 2
        self._wait_for(lambda: self._produced() >= half, "the producer", self._produced)
        deadline = time.monotonic() + IN_FLIGHT_S
        while batch_in_flight(Path(self.job.checkpoint)) is None and time.monotonic() < deadline:
            self._tick(0.01)

    def _kill(self) -> Kill:
        batch = batch_in_flight(Path(self.job.checkpoint))
        at = time.time()
        processes = self._alive().kill()
        within = "" if batch is None else f" in batch {batch}"
        self._start_job(
            f"SIGKILL to the job's {processes} processes{within}; starting the job again …"
        )
        return Kill(at=at, restarted=self._alive().started, processes=processes, batch=batch)

    def _produced(self) -> int:
        return self.producer.acknowledged

    def _landed(self) -> int:
        batches = progress.read_batches(self.job.directory)
        return batches[-1].end if batches else 0

    def _wait_for(self, condition: Callable[[], bool], who: str, count: Callable[[], int]) -> None:
        """Wait until the condition holds.

        Raises DemoError if ``count``, the progress of ``who``, stays the same for too long.
        """
        last, moved = count(), time.monotonic()
        while not condition():
            self._tick(TICK_S)
            if (now := count()) != last:
                last, moved = now, time.monotonic()
            if time.monotonic() - moved > (timeout_s := self.settings.stall_timeout_s):
                raise DemoError(
                    f"{who} has made no progress for {timeout_s:.0f} s, at {last:,} events: "
                    "run the demo with --keep and read the logs"
                )

    def _tick(self, seconds: float) -> None:
        self.producer.check()
        self._alive().check()
        self.screen.update(self._produced(), self._landed())
        time.sleep(seconds)

    def open_page(self) -> None:
        """Run the job under a supervisor, with its page in the browser, until Ctrl-C."""
        self.producer = Producer(
            self.bootstrap,
            self.topic,
            partitions=self.settings.partitions,
            rate=page.EVENTS_PER_S,
            total=page.EVENTS_MAX,
        )
        self.producer.start()
        self.producer.go()
        page.open_until_interrupted(
            self.settings.project, self._variables, self._project.storage, self.screen.print_line
        )

    def summary(self, kill: Kill, *, in_log: int, began: float) -> Summary:
        """Count the rows and plot the curves. ``began`` is in seconds of time.monotonic."""
        counts = _count(self.job, self.directory, produced=self._produced(), in_log=in_log)
        batches = progress.read_batches(self.job.directory)
        first, last = self.producer.curve[0][0], self.producer.curve[-1][0]
        return Summary(
            counts=counts,
            fetches=_fetches(self.job),
            kill=kill,
            producing_s=last - first,
            landing_s=batches[-1].finished - first,
            total_s=time.monotonic() - began,
            plot=plot(curves(self.producer.curve, batches, kill)),
            kept_directory=str(self.directory) if self.settings.keep else None,
        )


def batch_in_flight(checkpoint: Path) -> int | None:
    """Returns the micro-batch that the checkpoint has planned but not committed, or None."""
    planned, committed = (
        max(batch_numbers(checkpoint / name), default=None) for name in ("offsets", "commits")
    )
    return planned if planned != committed else None


def _topic(job: Job) -> str:
    if job.file.source is None or job.file.source.subscribe is None:
        raise DemoError(f"the demo fills one topic, so job {job.name} needs source.subscribe")
    return job.file.source.subscribe


def _fetches(job: Job) -> FetchStats:
    directory = job.parsed_options().reports.stats_directory
    return statistics.totals(Path(directory)) if directory else FetchStats()


def _count(job: Job, directory: Path, *, produced: int, in_log: int) -> Counts:
    """Count the rows of the job's table.

    ``produced`` and ``in_log`` are the numbers of events that the producer and the broker have
    counted. Spark writes its log into ``directory``.
    """
    with session(job.spark, name="count", log=directory / "count" / "spark.log") as spark:
        table = spark.read.format("delta").load(str(job.target))
        row = spark.sql(_COUNT.format(produced=int(produced)), table=table).first()
        assert row is not None  # an aggregate has one row
        return Counts(
            produced=produced,
            in_log=in_log,
            rows=row["rows"],
            positions=row["positions"],
            events=row["events"],
        )
