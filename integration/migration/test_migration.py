"""A query moves between Spark's connector and kfetch on one checkpoint, while records arrive.

Nothing is lost, and nothing comes twice, also where a process was killed between a micro-batch's
plan (``offsets``) and its commit (``commits``).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.records import log_ends, numbered, producer, write
from integration.sessions import checkpoints_in_files
from kfetch.admin.checkpoint import read_checkpoint
from kfetch.admin.checkpoint_check import verify
from kfetch.admin.offset_log import Writer, connector_json
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
DEFAULTS = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
AT_ONCE = {"in": 1, "when": "before"}


def test_there_and_back(kafka: Cluster, topic: TopicFactory, tmp_path: Path) -> None:
    """A query of two sources moves to kfetch one source after the other, and back. Records arrive
    meanwhile. Each record is in one micro-batch, and the logs have the offsets at the end. Without
    ``to-kafka`` the connector refuses kfetch's offsets."""
    clicks, views = topic(3), topic(1)
    write(kafka, views, numbered("v", 40))
    stays = [["kafka", clicks], ["kafka", views]]
    half = [["kfetch", clicks], ["kafka", views]]
    both = [["kfetch", clicks], ["kfetch", views]]
    with Arrivals(kafka, clicks).running():
        refused = run(stays) | {"fails": "Expected e.g."}
        runs = [run(stays), run(half), run(both), refused, run(stays, move=True)]
        ended = process(kafka, tmp_path, runs, **checkpoints_in_files())
    assert 0 == ended, (tmp_path / "log").read_text()

    assert numbered("v", 40) == [value for name, _, _, value in rows(tmp_path) if name == views]
    assert_complete(kafka, clicks, tmp_path, dict.fromkeys(range(3), 0))
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert [Writer.CONNECTOR] * 2 == [line.writer for line in checkpoint.lines]
    checks = verify(checkpoint, {"kafka.bootstrap.servers": kafka.bootstrap_servers})
    assert [(), ()] == [check.findings for check in checks]
    assert len(list((tmp_path / "checkpoint.backups").iterdir())) == 1


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("first", ["kafka", "kfetch"])
def test_kills_between_plan_and_commit(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path, first: str, when: str
) -> None:
    """Each process is killed in its second micro-batch, and the other source ends that batch. At
    the end everything was delivered once, from the start of batch 0 on. A batch that ran again had
    the same rows."""
    name = topic(3)
    second = "kfetch" if first == "kafka" else "kafka"
    arrivals = Arrivals(kafka, name)
    with arrivals.running():
        for source in (first, second):
            arrivals.wait_for(350)
            dies = run([[source, name]], die={"in": 2, "when": when}, move=source == "kafka")
            assert -signal.SIGKILL == process(kafka, tmp_path, [dies])
            assert read_checkpoint(tmp_path / "checkpoint").pending
    ends = run([[first, name]], move=first == "kafka", maxOffsetsPerTrigger="100000")
    assert 0 == process(kafka, tmp_path, [ends])

    done = batches(tmp_path / "checkpoint", "commits")
    assert (
        [*range(done[-1] + 1)] == done == sorted(int(f.name) for f in (tmp_path / "rows").iterdir())
    )
    assert_complete(kafka, name, tmp_path, dict.fromkeys(range(3), 0))
    assert arrivals.sent == len(rows(tmp_path))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_batch_0_of_kfetch_is_ended_by_the_connector(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """kfetch starts at ``latest`` and dies in batch 0. The connector finds the start of the batch
    in ``sources/0/0`` and does not ask for ``latest`` again."""
    name = topic(3)
    write(kafka, name, ["old"])
    arrivals = Arrivals(kafka, name)
    with arrivals.running():
        dies = run([["kfetch", name]], die=AT_ONCE, startingOffsets="latest")
        assert -signal.SIGKILL == process(kafka, tmp_path, [dies])
        arrivals.wait_for(100)
        start = read_checkpoint(tmp_path / "checkpoint").start(0)
        goes_on = run([["kafka", name]], move=True, startingOffsets="latest")
        assert 0 == process(kafka, tmp_path, [goes_on]), (tmp_path / "log").read_text()

    assert start is not None
    first = {tp.partition: at.offset for tp, at in start.positions.items()}
    assert_complete(kafka, name, tmp_path, first)
    assert len(rows(tmp_path)) >= 100


@pytest.mark.long
@pytest.mark.timeout(900)
def test_batch_0_of_the_connector_is_ended_by_kfetch(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The connector starts at ``latest`` and dies in batch 0. kfetch with ``latest`` refuses to
    guess where the batch starts. With the offsets that ``show`` prints it ends the batch."""
    name = topic(3)
    write(kafka, name, ["old"])
    arrivals = Arrivals(kafka, name)
    with arrivals.running():
        dies = run([["kafka", name]], die=AT_ONCE, startingOffsets="latest")
        assert -signal.SIGKILL == process(kafka, tmp_path, [dies])
        arrivals.wait_for(100)
        guesses = run([["kfetch", name]], startingOffsets="latest")
        assert 1 == process(kafka, tmp_path, [guesses])
        assert "kfetch cannot tell where it starts" in (tmp_path / "log").read_text()
        start = read_checkpoint(tmp_path / "checkpoint").initial["0"]
        knows = run([["kfetch", name]], startingOffsets=connector_json(start.positions))
        assert 0 == process(kafka, tmp_path, [knows])

    assert_complete(
        kafka, name, tmp_path, {tp.partition: at.offset for tp, at in start.positions.items()}
    )
    assert len(rows(tmp_path)) >= 100


class Arrivals:
    """A record for each of three partitions, about a hundred a second. Each names its place."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._next = log_ends(cluster, topic)
        self._stop = threading.Event()
        self.sent = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send during the block."""
        thread = threading.Thread(target=self._send, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(60)

    def wait_for(self, records: int) -> None:
        """Wait until so many more records were sent."""
        enough, deadline = self.sent + records, time.monotonic() + 60
        while self.sent < enough:
            assert time.monotonic() < deadline, "the producer has stopped"
            time.sleep(0.01)

    def _send(self) -> None:
        with producer(self._cluster, linger_ms=5) as sender:
            while not self._stop.wait(0.03):
                for partition, offset in self._next.items():
                    sender.send(self._topic, f"{partition}-{offset}".encode(), partition=partition)
                    self._next[partition] = offset + 1
                    self.sent += 1


def run(
    sources: list[list[str]],
    *,
    die: dict[str, Any] | None = None,
    move: bool = False,
    **options: str,
) -> dict[str, Any]:
    """A run for ``integration.migration.query``."""
    return {"sources": sources, "die": die, "move": move, "options": DEFAULTS | options}


def process(
    kafka: Cluster,
    directory: Path,
    runs: list[dict[str, Any]],
    python: str | Path = sys.executable,
    **spark: str,
) -> int:
    """The exit code of a process with these runs. Its output is in ``log``."""
    asked = {
        "servers": kafka.bootstrap_servers,
        "directory": str(directory),
        "spark": spark,
        "runs": runs,
    }
    command = [str(python), "-m", "integration.migration.query", json.dumps(asked)]
    with (directory / "log").open("w") as log:
        return subprocess.run(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=240
        ).returncode


def rows(directory: Path) -> list[tuple[str, int, int, str]]:
    """Topic, partition, offset and value of each row, by micro-batch."""
    files = sorted((directory / "rows").iterdir(), key=lambda file: int(file.name))
    return [tuple(row) for file in files for row in json.loads(file.read_text())]


def assert_complete(kafka: Cluster, topic: str, directory: Path, first: dict[int, int]) -> None:
    """Each record from ``first`` to the checkpoint's end was delivered once, as it was sent."""
    checkpoint = read_checkpoint(directory / "checkpoint")
    assert not checkpoint.pending
    ends = {
        tp.partition: at.offset
        for source in range(checkpoint.sources)
        for tp, at in checkpoint.end(source).positions.items()
        if tp.topic == topic
    }
    expected = [(p, n, f"{p}-{n}") for p in sorted(first) for n in range(first[p], ends[p])]
    assert expected == sorted(tuple(row[1:]) for row in rows(directory) if row[0] == topic)
