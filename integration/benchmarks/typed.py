"""Values as structs: kfetch's decoders against Spark's functions behind the connector, by turns.

    python -m integration.benchmarks.typed [--format json|avro|protobuf] [--fields 5|40]
        [--sink noop|delta] [--records N] [--partitions N] [--runs N] [--cores N] [--pair] [--json]

Spark's connector fills a topic with records of five fields (92 bytes as JSON), or of 40 fields with
nesting (1 KiB). With ``--pair`` only the connector with Spark's function and kfetch with the format
run. Queries read it with availableNow, in one session and after one warm-up each. Each
delivers the struct, the partition and the offset. The times are those of the micro-batches, of
their writes, and from start() to the end of the query. The CPU time is that of the whole machine:
Spark, workers, agent and broker. So nothing else may run.

``from_protobuf`` needs a jar of Spark. If it can't be had, KFETCH_SPARK_PROTOBUF names another one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from integration.benchmarks import stage
from integration.benchmarks.decode import cpu
from integration.benchmarks.typed_values import KINDS, TypedValues
from kfetch_jobs.jvm.spark import delta_jars
from kfetch_jobs.kafka import Cluster

TOPIC = "typed"
UTC = {"spark.sql.session.timeZone": "UTC"}
_COLUMNS = {"columns": "value,partition,offset"}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One query over the whole topic. All times are in seconds."""

    rows: int
    batches: float
    """Of the micro-batches."""
    writes: float
    """Of their part addBatch, which reads and writes."""
    wall: float
    """From start() to the end."""
    cpu: float
    """Of the whole machine."""

    def __str__(self) -> str:
        """Tell the times."""
        return (
            f"{self.batches:6.2f} s of micro-batches ({self.writes:6.2f} s of addBatch), "
            f"{self.wall:6.2f} s from start to end, {self.cpu:6.2f} s of CPU"
        )


def write(spark: Any, cluster: Cluster, values: list[bytes], chosen: argparse.Namespace) -> None:
    """Fills the topic. Each of the values is written as often as the others."""
    stage.create(cluster, TOPIC, chosen.partitions)
    few = spark.createDataFrame([(bytearray(value),) for value in values], "value BINARY")
    many = few.crossJoin(spark.range(chosen.records // len(values))).select("value")
    (
        many.write.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("kafka.batch.size", 128 << 10)
        .option("kafka.linger.ms", 20)
        .option("topic", TOPIC)
        .save()
    )


def _frames(spark: Any, cluster: Cluster, values: TypedValues) -> dict[str, Callable[[], Any]]:
    def frame(source: str, **options: str) -> Any:
        options |= {"startingOffsets": "earliest"}
        return stage.stream(spark, cluster, TOPIC, source, **options)

    parsed = (values.parsed.alias("value"), "partition", "offset")
    return {
        "connector, raw": lambda: frame("kafka"),
        "kfetch, raw": lambda: frame("kfetch"),
        f"connector + {values.function}": lambda: frame("kafka").select(*parsed),
        f"kfetch + {values.function}": lambda: frame("kfetch", **_COLUMNS).select(*parsed),
        f"kfetch valueFormat={values.name}": lambda: frame("kfetch", **_COLUMNS, **values.options),
    }


def run(start: Callable[[str], Any], look: Callable[[str], None] = lambda _: None) -> Run:
    """Runs a query to its end. ``start`` gets a directory for its checkpoint and its table.

    ``look`` gets it after the run, before it is removed.
    """
    with tempfile.TemporaryDirectory() as directory:
        began, busy = time.monotonic(), _busy_seconds()
        query = start(directory)
        if not query.awaitTermination(600):
            raise TimeoutError("the query was not done within 600 s")
        wall, spent = time.monotonic() - began, _busy_seconds() - busy
        look(directory)
        batches = [p for p in query.recentProgress if p["numInputRows"]]
    return Run(
        rows=sum(batch["numInputRows"] for batch in batches),
        batches=sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000,
        writes=sum(batch["durationMs"]["addBatch"] for batch in batches) / 1000,
        wall=wall,
        cpu=spent,
    )


def through_spark(frame: Any, sink: str) -> Callable[[str], Any]:
    """Returns the start of a query into a sink of Spark."""

    def start(directory: str) -> Any:
        return (
            frame.writeStream.format(sink)
            .option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{directory}/table")
        )

    return start


def _busy_seconds() -> float:
    """CPU time that the machine has spent since its start, in ticks of 10 ms (proc(5), stat)."""
    user, nice, system, _idle, _iowait, irq, softirq = map(
        int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    )
    return (user + nice + system + irq + softirq) / 100


def main() -> None:
    """Run the benchmark and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--format", choices=sorted(KINDS), default="json")
    parser.add_argument("--fields", type=int, choices=(5, 40), default=5)
    parser.add_argument("--sink", choices=("noop", "delta"), default="noop")
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--pair", action="store_true", help="only two of the five queries")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    runs = _compare(chosen)
    if chosen.json:
        print(json.dumps({name: [asdict(run) for run in found] for name, found in runs.items()}))
        return
    print(cpu())
    for name, found in runs.items():
        print(f"{name:28} {median_run(found)}   (medians)")


def _compare(chosen: argparse.Namespace) -> dict[str, list[Run]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values = KINDS[chosen.format](chosen.fields, directory)
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        jars = [*values.jars(), *(delta_jars() if chosen.sink == "delta" else [])]
        settings = UTC | (DELTA if chosen.sink == "delta" else {})
        spark = stage.session(chosen.cores, settings, jars)
        stack.callback(spark.stop)
        write(spark, cluster, values.values, chosen)
        frames = _frames(spark, cluster, values)
        if chosen.pair:
            pair = (f"connector + {values.function}", f"kfetch valueFormat={values.name}")
            frames = {name: frames[name] for name in pair}
        runs: dict[str, list[Run]] = {name: [] for name in frames}
        for number in range(chosen.runs + 1):
            for name, frame in frames.items():
                one = run(through_spark(frame(), chosen.sink))
                print(f"run {number}: {name:28} {one}", file=sys.stderr, flush=True)
                runs[name] += [one] if number else []  # the first run warms up
        return runs


def median_run(runs: list[Run]) -> Run:
    def median(field: str) -> float:
        return statistics.median(getattr(run, field) for run in runs)

    fields = ("batches", "writes", "wall", "cpu")
    return Run(runs[0].rows, *(median(field) for field in fields))


if __name__ == "__main__":
    main()
