"""What the agent holds while a slow consumer drains a backlog, as the operating system sees it.

    python -m integration.benchmarks.memory [--slots N] [--budgets MIB,MIB,…] [--gigabytes N]
        [--seconds N]

Values have 1 KiB, there are 16 partitions, and the consumer sleeps after each batch. The benchmark
prints the memory of an idle agent that has decoded, the agent's peak (read every tenth of a
second), and the most that the agent charged to its budget. More task slots mean more readers of one
budget.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from integration.agent.processes import agents_of, all_ended, private_bytes
from integration.benchmarks.fill import fill
from integration.streams import kfetch, wait_until
from kfetch.admin import agents
from kfetch_jobs.jvm.spark import session
from kfetch_jobs.kafka import Cluster

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MIB = 1 << 20
_VALUE_BYTES, _PARTITIONS = 1024, 16
_SAMPLE_S = 0.1
_SLOWER = 5
"""How many times as long as it wants to take a drain may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An agent's memory during one drain, in bytes."""

    budget: int
    idle: int
    """After a first small read."""
    peak: int
    charged: int
    """The most that its own accounts knew of."""
    end: int
    rows: int
    seconds: float
    samples: int

    @property
    def of_budget(self) -> float:
        """What the drain added to the resting agent, as a share of the budget."""
        return (self.peak - self.idle) / self.budget

    def __str__(self) -> str:
        return (
            f"budget {self.budget >> 20} MiB: idle {self.idle >> 20}, peak {self.peak >> 20}, "
            f"more {(self.peak - self.idle) >> 20} MiB = {self.of_budget:.2f} of the budget; "
            f"charged at most {self.charged >> 20}, at the end {self.end >> 20} MiB; "
            f"{self.rows:,} rows in {self.seconds:.0f} s, {self.samples} looks"
        )


class Backlog:
    """A broker with a large and a tiny topic."""

    def __init__(self, cluster: Cluster, gigabytes: float) -> None:
        self.cluster = cluster
        self.records = int(gigabytes * 1e9 / _VALUE_BYTES)
        self._fill("tiny", 1000)
        self._fill("large", self.records)

    def _fill(self, topic: str, records: int) -> None:
        fill(self.cluster, topic, partitions=_PARTITIONS, records=records, size=_VALUE_BYTES)

    def held(self, spark: SparkSession, slots: int, budget: int, seconds: float) -> Held:
        """Drain it with a new agent in about so many seconds. ``budget`` in bytes."""
        _leave(agents_of(psutil.Process()))  # its budget would be the larger of the two
        self._drain(spark, "tiny", budget, 0, seconds)
        (agent,) = agents_of(psutil.Process())
        idle, began = private_bytes(agent), time.monotonic()
        with _sampled(agent) as samples:
            rows = self._drain(spark, "large", budget, seconds * slots / self.records, seconds)
        status = next(status for status in agents.find() if status.pid == agent.pid)
        return Held(
            budget=budget,
            idle=idle,
            peak=max(samples),
            charged=status.memory_peak,
            end=private_bytes(agent),
            rows=rows,
            seconds=time.monotonic() - began,
            samples=len(samples),
        )

    def _drain(
        self, spark: SparkSession, topic: str, budget: int, row_s: float, seconds: float
    ) -> int:
        """Read a topic to its end; how many rows it had."""
        options = {"kfetch.agent": "process", "kfetch.agent.memory": str(budget)}
        rows = kfetch(spark, self.cluster, subscribe=topic, startingOffsets="earliest", **options)
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                rows.mapInArrow(_slowly(row_s), rows.schema)
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            patience_s = 60 + _SLOWER * seconds
            if not query.awaitTermination(patience_s):
                query.stop()
                raise TimeoutError(f"{topic} was not drained within {patience_s:.0f} s")
            return sum(progress["numInputRows"] for progress in query.recentProgress)


def _leave(old: list[psutil.Process]) -> None:
    """Let agents end; the next read starts another."""
    for agent in old:
        agent.terminate()
    wait_until(lambda: all_ended(old), what="agents to leave")


def _slowly(row_s: float) -> Any:
    """A function for ``mapInArrow`` that takes its time for each row and keeps none."""

    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * row_s)
        yield from ()

    return consume


@contextmanager
def _sampled(process: psutil.Process) -> Iterator[list[int]]:
    """What a process holds meanwhile, in bytes."""
    samples: list[int] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(_SAMPLE_S):
            samples.append(private_bytes(process))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=2, help="Spark's task slots")
    parser.add_argument("--budgets", default="64,256", help="kfetch.agent.memory in MiB, N,N,…")
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=75, help="what the consumer aims at")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as cluster:
        backlog = Backlog(cluster, options.gigabytes)
        settings = {"spark.master": f"local[{options.slots}]"}
        with session(settings, name="memory", log=Path(name) / "log") as spark:
            for budget in map(int, options.budgets.split(",")):
                held = backlog.held(spark, options.slots, budget * _MIB, options.seconds)
                print(f"{options.slots} slots, {held}", flush=True)


if __name__ == "__main__":
    main()
