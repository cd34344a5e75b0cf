"""Kills between file, commit and checkpoint, and failed tasks: every record is there once."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.delta.query import OFFSETS_PER_TRIGGER
from integration.delta.readers import by_duckdb, orphans, places
from integration.faults.test_kill import Child, query
from integration.records import log_ends, write
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

_MODULE = "integration.delta.query"
_PARTITIONS = 3
_RECORDS = 4_000
"""Of each partition: three micro-batches."""


@pytest.fixture
def filled(kafka: Cluster, topic: TopicFactory) -> str:
    """A topic in which each value names its partition."""
    name = topic(_PARTITIONS)
    for partition in range(_PARTITIONS):
        write(kafka, name, [f"v{partition}"] * _RECORDS, partition=partition)
    return name


def run_to_its_end(kafka: Cluster, name: str, directory: Path, **more: object) -> None:
    """Let the query read all that is there."""
    with query(kafka, name, directory, more, _MODULE, availableNow=True) as child:
        assert 0 == child.process.wait(2 * PATIENCE_S), child.log.read_text()[-4000:]


def check_everything_once(kafka: Cluster, name: str, table: Path) -> None:
    """DuckDB finds each record once, with its own value."""
    ends = log_ends(kafka, name)
    assert [(p, o) for p, end in sorted(ends.items()) for o in range(end)] == places(table)
    wrong = "SELECT count(*) FROM files WHERE decode(value) <> 'v' || partition"
    assert [(0,)] == by_duckdb(table, wrong)


def killed_at(
    step: str, kafka: Cluster, name: str, directory: Path
) -> tuple[list[int], list[str], int]:
    """Run the query until a step, and kill its driver, JVM and workers there.

    Returns the committed micro-batches, the files that the table does not name, and its rows.
    """
    reached = directory / "reached"
    reached.unlink(missing_ok=True)
    with query(kafka, name, directory, {"stop_at": step}, _MODULE, availableNow=True) as child:
        child.wait_for(reached.exists, step)
        child.kill()
    table = directory / "table"
    return batches(directory / "checkpoint", "commits"), orphans(table), len(places(table))


@pytest.mark.long  # test_store kills at the same steps, where the table is in a store
@pytest.mark.timeout(900)
def test_kills_at_each_step_and_failed_tasks(kafka: Cluster, filled: str, tmp_path: Path) -> None:
    """SIGKILL when files are written, when they are committed, and when Spark has noted that. In
    the last run, the first attempt of each task completes a file and dies. Nothing is lost, nothing
    comes twice, and files that no commit names stay out of the table."""
    commits, left, rows = killed_at("files", kafka, filled, tmp_path)
    assert ([], 0) == (commits, rows)
    assert left

    commits, more_left, rows = killed_at("commit", kafka, filled, tmp_path)
    assert ([], left) == (commits, more_left)
    assert 0 < rows <= OFFSETS_PER_TRIGGER

    commits, more_left, rows_again = killed_at("checkpoint", kafka, filled, tmp_path)
    assert ([0], left, rows) == (commits, more_left, rows_again)

    run_to_its_end(kafka, filled, tmp_path, die=True)

    check_everything_once(kafka, filled, tmp_path / "table")
    assert 3 <= len(batches(tmp_path / "checkpoint", "commits"))
    # A killed worker may still have written another file than the one whose row it has not sent.
    assert len(left) + 2 <= len(orphans(tmp_path / "table"))


_SEED = 31
_VICTIMS = {
    "worker": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
    "agent": "kfetch.agent",
    "driver": "",
}
"""What is killed, by a part of its command. Python's daemon forks the workers of tasks."""


@pytest.mark.timeout(3600)
@pytest.mark.long
@pytest.mark.parametrize("kills", [2, 50])
def test_random_kills(kafka: Cluster, topic: TopicFactory, tmp_path: Path, kills: int) -> None:
    """SIGKILL of a worker, an executor, an agent or the driver at random moments, while records
    arrive and Spark runs slow tasks twice. DuckDB finds each record once in the files of the log,
    which names no file that is not there."""
    name, rng, left = topic(_PARTITIONS), random.Random(_SEED), kills
    killed: list[str] = []
    while left:
        with query(
            kafka, name, tmp_path, {"cluster": True}, _MODULE, processingTime="0 seconds"
        ) as child:
            while left and killed[-1:] != ["driver"]:
                killed.append(_kill_one(child, kafka, name, tmp_path, rng))
                left -= 1
        killed.append("restart")
    for partition in range(_PARTITIONS):
        write(kafka, name, [f"v{partition}"] * 500, partition=partition)
    run_to_its_end(kafka, name, tmp_path, cluster=True)

    check_everything_once(kafka, name, tmp_path / "table")


def _kill_one(child: Child, kafka: Cluster, name: str, directory: Path, rng: random.Random) -> str:
    """Let a micro-batch begin, and kill something within it or soon after. Returns what."""
    begun = len(batches(directory / "checkpoint", "offsets"))
    for partition in range(_PARTITIONS):
        write(kafka, name, [f"v{partition}"] * 1_500, partition=partition)
    child.wait_for(
        lambda: len(batches(directory / "checkpoint", "offsets")) > begun, "a micro-batch"
    )
    time.sleep(rng.uniform(0, 1))
    victim = rng.choice(sorted(_VICTIMS))
    for process in child.process.children(recursive=True):
        with suppress(psutil.Error):
            if victim != "driver" and _VICTIMS[victim] in " ".join(process.cmdline()):
                process.kill()
                break
    if victim == "driver":
        child.kill()
    return victim
