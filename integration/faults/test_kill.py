"""SIGKILL at any moment: the table holds every record exactly once."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from integration.checkpoints import batches, logged
from integration.conftest import TopicFactory
from integration.records import log_ends, producer, write
from integration.sessions import needs_delta
from integration.streams import PATIENCE_S, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PARTITIONS = 6
RECORDS = 300_000


@needs_delta()
@pytest.mark.long  # demo, supervisor and agent are killed in shorter tests
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, 5])
def test_kills_lose_nothing_and_repeat_nothing(
    kills: int, spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query into Delta that is killed again and again, first inside batch 0 of
    startingOffsets=latest, holds each (partition, offset) from its first start on exactly once."""
    name = topic(PARTITIONS)
    write(kafka, name, ["old"] * 100)
    arrivals = Arrivals(kafka, name)
    with arrivals.running():
        directory = kill_inside_batch_0(kafka, name, tmp_path)
        promised = logged(directory / "checkpoint", 0)["from"][name]
        ends = logged(directory / "checkpoint", 0)["topics"][name]["partitions"]
        latest = log_ends(kafka, name)
        (directory / "go").touch()
        for _ in range(kills - 2):
            kill_after_a_commit(kafka, name, directory)
        arrivals.hurry()
        kill_after_a_commit(kafka, name, directory)
    run_to_its_end(kafka, name, directory)

    assert RECORDS == arrivals.sent
    # Had the restart asked for latest again, it would have begun behind batch 0.
    assert all(ends[str(p)][0] < latest[p] for p in range(PARTITIONS))
    first = {int(partition): position[0] for partition, position in promised.items()}
    expected = [
        (partition, offset)
        for partition, end in sorted(log_ends(kafka, name).items())
        for offset in range(first[partition], end)
    ]
    table = spark.read.format("delta").load(str(directory / "table"))
    columns = table.select("partition", "offset").toArrow().to_pydict()
    assert expected == sorted(zip(columns["partition"], columns["offset"], strict=True))
    assert 0 == table.where("value <> concat(partition, '-', offset)").count()


class Arrivals:
    """300,000 records over six partitions: a steady stream, then what is left at once.

    Each value names its own place.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._next = log_ends(cluster, topic)
        self._hurry = threading.Event()
        self._stop = threading.Event()
        self.sent = 0

    def hurry(self) -> None:
        """Send the rest without pauses."""
        self._hurry.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send meanwhile; the end of the block waits until all are sent."""
        thread = threading.Thread(target=self._send, daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            self._stop.set()
            raise
        finally:
            thread.join(PATIENCE_S)

    def _send(self) -> None:
        with producer(self._cluster) as sender:
            while not self._hurry.is_set() and not self._stop.is_set() and self._row(sender):
                # On a slow machine the last tenth trickles: it must last till the last kill.
                time.sleep(0.002 if self.sent < RECORDS * 0.9 else 0.1)
        with producer(self._cluster, linger_ms=20) as sender:
            while not self._stop.is_set() and self._row(sender):
                pass

    def _row(self, sender: KafkaProducer) -> bool:
        """Send a record to each partition; False when all are sent."""
        if self.sent == RECORDS:
            return False
        for partition in range(PARTITIONS):
            offset = self._next[partition]
            sender.send(self._topic, f"{partition}-{offset}".encode(), partition=partition)
            self._next[partition] = offset + 1
            self.sent += 1
        return True


def kill_inside_batch_0(kafka: Cluster, topic: str, tmp_path: Path) -> Path:
    """Start a query anew until its batch 0 is not empty, and kill it there; its directory.

    Spark logs as batch 0 what arrived between two of its questions, milliseconds apart: where to
    start, and where the log ends.
    """
    for attempt in range(10):
        directory = tmp_path / f"attempt-{attempt}"
        directory.mkdir()
        with query(kafka, topic, directory, processingTime="0 seconds") as child:
            child.wait_for((directory / "started").exists, "a task")
            logged_batches = batches(directory / "checkpoint", "offsets")
            if logged_batches == [0]:
                child.wait_for(lambda d=directory: passed(kafka, topic, d), "younger records")
        if logged_batches == [0]:
            assert [] == batches(directory / "checkpoint", "commits")
            return directory
    raise AssertionError("no batch 0 had a record")


def passed(kafka: Cluster, topic: str, directory: Path) -> bool:
    """Whether every partition has grown behind the logged end of batch 0."""
    ends = logged(directory / "checkpoint", 0)["topics"][topic]["partitions"]
    return all(ends[str(p)][0] < end for p, end in log_ends(kafka, topic).items())


def kill_after_a_commit(kafka: Cluster, topic: str, directory: Path) -> None:
    """Start the query again, and kill it wherever it is when it has committed something."""
    before = batches(directory / "checkpoint", "commits")
    with query(kafka, topic, directory, processingTime="0 seconds") as child:
        child.wait_for(lambda: batches(directory / "checkpoint", "commits") != before, "a commit")


def run_to_its_end(kafka: Cluster, topic: str, directory: Path) -> None:
    """Let the query read all that is there. No temporary files are left."""
    with query(kafka, topic, directory, availableNow=True) as child:
        assert 0 == child.process.wait(2 * PATIENCE_S), child.log.read_text()[-4000:]
    assert ["lock"] == [path.name for path in (directory / "tmp").iterdir()]  # nor of killed runs


class Child:
    """A process that runs the query, and all the processes below it."""

    def __init__(self, process: psutil.Popen, log: Path) -> None:
        self.process = process
        self.log = log

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition; fails with the log if the process ends by itself."""

        def met() -> object:
            if self.process.poll() is not None:
                raise AssertionError(self.log.read_text()[-4000:])
            return condition()

        wait_until(met, what=what)

    def kill(self) -> None:
        """SIGKILL for the whole tree: Python, the JVM, its Python workers."""
        tree = [*self.process.children(recursive=True), self.process]
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(tree, timeout=30)


@contextmanager
def query(
    kafka: Cluster,
    topic: str,
    directory: Path,
    more: Mapping[str, object] | None = None,
    module: str = "integration.faults.query",
    **trigger: object,
) -> Iterator[Child]:
    """The query of a module in a process tree of its own, which the end of the block kills."""
    asked = {
        **(more or {}),
        "servers": kafka.bootstrap_servers,
        "topic": topic,
        "directory": str(directory),
        "trigger": trigger,
    }
    command = [sys.executable, "-m", module, json.dumps(asked)]
    log = directory / "output"
    with log.open("ab") as output:
        process = psutil.Popen(command, stdout=output, stderr=output, cwd=ROOT)
    child = Child(process, log)
    try:
        yield child
    finally:
        if process.poll() is None:
            child.kill()
