"""How fast are many small partitions read? kfetch and Spark's connector by turns, in one run.

    python -m integration.benchmarks.trickle [--partitions N] [--records N] [--runs N]

Every partition holds a few records; AvailableNow queries read them all in one micro-batch, in one
session (local[2]) and after one warm-up each. The connector is given the setting that is kindest to
it here, ``kafka.fetch.max.wait.ms=5``: with the default of 500 it takes some 20 times as long.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from integration.benchmarks.stage import (
    SOURCES,
    alternated,
    broker_cpu_seconds,
    create,
    medians,
    session,
    settings,
    stream,
)
from kfetch_jobs.kafka import Cluster

TOPIC = "trickle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One query over the whole topic. Times in seconds."""

    source: str
    rows: int
    seconds: float
    """Of the micro-batches, from planning to commit."""
    planning_seconds: float
    """Of these, for latestOffset and for making tasks of two offsets."""
    wall_seconds: float
    """From start() to the query's end."""
    broker_cpu_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.source:6} {self.seconds:7.3f} s (planning {self.planning_seconds:6.3f} s)   "
            f"wall {self.wall_seconds:7.3f} s   broker CPU {self.broker_cpu_seconds:5.2f} s   "
            f"{self.rows} rows"
        )


def fill(cluster: Cluster, partitions: int, records: int) -> None:
    """So many records of 100 bytes into each partition."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=100)
    for number in range(records):
        for partition in range(partitions):
            producer.send(TOPIC, b"%0100d" % number, partition=partition)
    producer.flush(120)
    producer.close()


def read(spark: Any, cluster: Cluster, source: str, options: argparse.Namespace) -> Run:
    """Read the topic from its beginning, once."""
    given = {
        "kfetch": {"kfetch_agent": options.agent},
        "kafka": {"kafka_fetch_max_wait_ms": str(options.connector_wait_ms)},
    }
    rows = stream(spark, cluster, TOPIC, source, startingOffsets="earliest", **given[source])
    cpu, began = broker_cpu_seconds(cluster), time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(600):
            raise TimeoutError(f"{source} has not read {TOPIC} within 600 s")
        wall = time.monotonic() - began
        progress = [p for p in query.recentProgress if p["numInputRows"]]
    steps = [p["durationMs"] for p in progress]
    found = Run(
        source=source,
        rows=sum(p["numInputRows"] for p in progress),
        seconds=sum(step["triggerExecution"] for step in steps) / 1000,
        planning_seconds=sum(step["latestOffset"] + step["queryPlanning"] for step in steps) / 1000,
        wall_seconds=wall,
        broker_cpu_seconds=broker_cpu_seconds(cluster) - cpu,
    )
    expected = options.partitions * options.records
    if found.rows != expected:
        raise RuntimeError(f"{source} read {found.rows} rows of {expected}")
    return found


def compare(options: argparse.Namespace) -> list[Run]:
    """All counted runs, alternated."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        create(cluster, TOPIC, options.partitions)
        fill(cluster, options.partitions, options.records)
        spark = session(2, settings(options.set))
        stack.callback(spark.stop)
        for source in SOURCES:
            print(f"warm-up: {read(spark, cluster, source, options)}", file=sys.stderr, flush=True)
        runs = alternated(options.runs, lambda source: read(spark, cluster, source, options))
        return [run for _, run in runs]


def summary(runs: list[Run]) -> dict[str, dict[str, float]]:
    """Medians in seconds, and their ratios."""
    names = ("seconds", "wall_seconds", "broker_cpu_seconds")
    return {name: medians((run.source, getattr(run, name)) for run in runs) for name in names}


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--records", type=int, default=20, help="in each partition")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each")
    parser.add_argument("--agent", default="inline", help="where kfetch's sessions live")
    parser.add_argument("--connector-wait-ms", type=int, default=5, help="its fetch.max.wait.ms")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = compare(options)
    found = summary(runs)
    if options.json:
        print(json.dumps({"runs": [asdict(run) for run in runs], **found}))
        return
    for name, values in found.items():
        print(
            f"{name}: kfetch {values['kfetch']:.3f}, connector {values['kafka']:.3f}, "
            f"connector / kfetch {1 / values['ratio']:.1f}   (medians of {options.runs})"
        )


if __name__ == "__main__":
    main()
