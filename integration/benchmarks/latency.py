"""How long from produce to foreachBatch? kfetch and Spark's connector by turns, in one run.

    python -m integration.benchmarks.latency [--rate N] [--partitions N] [--seconds S] [--runs N]

A process of its own produces records at a steady rate. A record's value is the time at which the
producer got it. A query with the default trigger collects each micro-batch in foreachBatch, as any
sink must, and looks at the clock then. The first seconds of a query do not count (``--warm-up``).
Each run has its percentiles, and the benchmark compares their medians over the runs. Both sources
run with the settings that docs/how-to/tune.md advises for short micro-batches; ``--plain`` leaves
Spark's defaults.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.synchronize
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from integration.benchmarks.stage import (
    LOW_LATENCY,
    alternated,
    create,
    medians,
    session,
    settings,
    stream,
)
from kfetch_jobs.kafka import Cluster

TOPIC = "latency"
PATIENCE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One query over the stream of records. Times in milliseconds."""

    source: str
    records: int
    batches: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    def __str__(self) -> str:
        return (
            f"{self.source:6} p50 {self.p50_ms:6.0f} ms   p99 {self.p99_ms:6.0f} ms   "
            f"max {self.max_ms:6.0f} ms   {self.records} records in {self.batches} batches"
        )


class LatencySink:
    """A sink for foreachBatch that notes the latency of each record, for a while."""

    def __init__(self) -> None:
        self.batches = 0
        self.latencies_s: list[float] = []
        self._counts_from = float("inf")
        """Records that were produced earlier do not count."""
        self._first_records, self._counted, self._is_idle = (threading.Event() for _ in range(3))

    def take(self, frame: Any, _batch: int) -> None:
        """The function for ``foreachBatch``."""
        if self._counted.is_set():
            self._is_idle.set()
            return
        rows = frame.select("value").collect()
        now = time.time()
        produced_at = [float(row.value.decode()) for row in rows]
        latencies_s = [now - at for at in produced_at if at >= self._counts_from]
        self.latencies_s += latencies_s
        self.batches += bool(latencies_s)
        if rows:
            self._first_records.set()

    def count(self, warm_up_s: float, seconds: float) -> None:
        """Count for ``seconds``. The count begins ``warm_up_s`` seconds after the first records."""
        if not self._first_records.wait(PATIENCE_S):
            raise TimeoutError(f"no records within {PATIENCE_S} s")
        time.sleep(warm_up_s)
        self._counts_from = time.time()
        time.sleep(seconds)
        # Stopping a query while it collects overflows the stack in a regular expression of Spark.
        self._counted.set()
        self._is_idle.wait(PATIENCE_S)

    def percentile_ms(self, share: float) -> float:
        """The latency that this share of the records does not exceed."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def produce(
    bootstrap: str, rate: float, partitions: int, stop: multiprocessing.synchronize.Event
) -> None:
    """Send records at a steady rate, to the partitions in turn, until told to stop."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0, acks=1)
    began, sent = time.time(), 0
    while not stop.is_set():
        time.sleep(max(0.0, began + sent / rate - time.time()))
        producer.send(TOPIC, repr(time.time()).encode(), partition=sent % partitions)
        sent += 1
    producer.close()


@contextmanager
def steady(cluster: Cluster, rate: float, partitions: int) -> Iterator[None]:
    """Records arrive as long as the block lasts."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(
        target=produce, args=(cluster.bootstrap_servers, rate, partitions, stop), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(PATIENCE_S)


def measure(spark: Any, cluster: Cluster, source: str, options: argparse.Namespace) -> Run:
    """Measure one query that starts at the latest offsets."""
    agent = {"kfetch_agent": options.agent} if source == "kfetch" else {}
    sink = LatencySink()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            stream(spark, cluster, TOPIC, source, startingOffsets="latest", **agent)
            .writeStream.foreachBatch(sink.take)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            sink.count(options.warm_up, options.seconds)
        finally:
            failed = query.exception()
            query.stop()
    if failed is not None or not sink.latencies_s:
        raise RuntimeError(f"{source} delivered {len(sink.latencies_s)} records: {failed}")
    return Run(
        source=source,
        records=len(sink.latencies_s),
        batches=sink.batches,
        p50_ms=sink.percentile_ms(0.50),
        p99_ms=sink.percentile_ms(0.99),
        max_ms=max(sink.latencies_s) * 1000,
    )


def compare(options: argparse.Namespace) -> list[Run]:
    """Measure both sources by turns, after a short run of each that does not count."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        create(cluster, TOPIC, options.partitions)
        advised = {} if options.plain else LOW_LATENCY
        spark = session(2, {**advised, **settings(options.set)})
        stack.callback(spark.stop)
        stack.enter_context(steady(cluster, options.rate, options.partitions))
        short = argparse.Namespace(**vars(options) | {"warm_up": 5, "seconds": 5})
        for _ in alternated(
            1, lambda source: f"(warm-up) {measure(spark, cluster, source, short)}"
        ):
            pass
        runs = alternated(options.runs, lambda source: measure(spark, cluster, source, options))
        return [run for _, run in runs]


def summary(runs: list[Run]) -> dict[str, dict[str, float]]:
    """Medians of the percentiles, in milliseconds, and their ratios."""
    names = ("p50_ms", "p99_ms")
    return {name: medians((run.source, getattr(run, name)) for run in runs) for name in names}


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=200, help="records a second, in all")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="counted time of a run")
    parser.add_argument("--warm-up", type=float, default=5, help="seconds of a run not counted")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each")
    parser.add_argument("--plain", action="store_true", help="Spark's default settings")
    parser.add_argument("--agent", default="process", help="where kfetch's sessions live")
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
            f"{name[:3]}: kfetch {values['kfetch']:.0f} ms, connector {values['kafka']:.0f} ms, "
            f"ratio {values['ratio']:.2f}   (medians of {options.runs})"
        )


if __name__ == "__main__":
    main()
