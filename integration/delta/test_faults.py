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
