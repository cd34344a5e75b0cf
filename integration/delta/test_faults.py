"""Kills between file, commit and checkpoint, and failed tasks: every record is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.delta.query import OFFSETS_PER_TRIGGER
from integration.delta.readers import by_duckdb, orphans, places
from integration.faults.test_kill import query
from integration.records import log_ends, write
from integration.sessions import needs_delta
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, needs_delta()]

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


@pytest.mark.parametrize(("step", "commits"), [("files", []), ("commit", []), ("checkpoint", [0])])
def test_a_kill_at_each_step(
    kafka: Cluster, filled: str, tmp_path: Path, step: str, commits: list[int]
) -> None:
    """SIGKILL for the driver, its JVM and all workers. The next run loses and repeats nothing, and
    files that were not committed stay out of the table."""
    asked = {"stop_at": step}
    with query(kafka, filled, tmp_path, asked, _MODULE, availableNow=True) as child:
        child.wait_for((tmp_path / "reached").exists, step)
        child.kill()
    assert commits == batches(tmp_path / "checkpoint", "commits")
    left = orphans(tmp_path / "table")
    assert bool(left) == (step == "files")

    run_to_its_end(kafka, filled, tmp_path)

    check_everything_once(kafka, filled, tmp_path / "table")
    assert left == orphans(tmp_path / "table")
    assert 3 <= len(batches(tmp_path / "checkpoint", "commits"))
    assert OFFSETS_PER_TRIGGER < _PARTITIONS * _RECORDS


def test_failed_attempts_of_tasks(kafka: Cluster, filled: str, tmp_path: Path) -> None:
    """The first attempt of each task completes a file and dies. Spark tries again, and the log
    names the files of the second attempts alone."""
    run_to_its_end(kafka, filled, tmp_path, die=True)

    check_everything_once(kafka, filled, tmp_path / "table")
    assert 3 <= len(orphans(tmp_path / "table"))
