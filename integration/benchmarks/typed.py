"""JSON values as structs: kfetch's decoder against ``from_json``, by turns, in one run.

    python -m integration.benchmarks.typed [--records N] [--partitions N] [--runs N] [--cores N]

A topic is filled with JSON of five fields (92 bytes). Queries read it into Spark's noop sink with
availableNow, in one session and after one warm-up each. Each delivers the struct, the partition and
the offset. The times are those of the micro-batches, and from start() to the end of the query.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from integration.benchmarks import stage
from integration.benchmarks.fill import fill
from integration.benchmarks.values import FIVE, five
from kfetch_jobs.kafka import Cluster

_TOPIC = "typed"


def _parsed(frame: Any) -> Any:
    from pyspark.sql import functions as F

    struct = F.from_json(F.col("value").cast("string"), FIVE).alias("value")
    return frame.select(struct, "partition", "offset")


def _frames(spark: Any, cluster: Cluster) -> dict[str, Callable[[], Any]]:
    def frame(source: str, **options: str) -> Any:
        options |= {"startingOffsets": "earliest"}
        return stage.stream(spark, cluster, _TOPIC, source, **options)

    columns = {"columns": "value,partition,offset"}
    decoded = {"valueFormat": "json", "valueSchema": FIVE}
    return {
        "connector + from_json": lambda: _parsed(frame("kafka")),
        "kfetch + from_json": lambda: _parsed(frame("kfetch", **columns)),
        "kfetch valueFormat=json": lambda: frame("kfetch", **columns, **decoded),
    }


def _run(frame: Any) -> tuple[int, float, float]:
    """Returns the rows, the seconds of the micro-batches, and those from start to end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(600):
            raise TimeoutError("the query was not done within 600 s")
        wall = time.monotonic() - began
        progress = [p for p in query.recentProgress if p["numInputRows"]]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in progress) / 1000
    return sum(p["numInputRows"] for p in progress), seconds, wall


def main() -> None:
    """Run the benchmark and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    chosen = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rng, payloads = random.Random(7), directory / "values"
        lines = (json.dumps(five(rng, i), separators=(",", ":")) for i in range(20_000))
        payloads.write_text("\n".join(lines) + "\n")
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        fill(cluster, _TOPIC, partitions=chosen.partitions, records=chosen.records,
             payloads=payloads)  # fmt: skip
        spark = stage.session(chosen.cores)
        stack.callback(spark.stop)
        frames = _frames(spark, cluster)
        runs: dict[str, list[tuple[int, float, float]]] = {name: [] for name in frames}
        for number in range(chosen.runs + 1):
            for name, frame in frames.items():
                runs[name].append(_run(frame()))
                print(f"run {number}: {name}: {runs[name][-1]}", file=sys.stderr, flush=True)
    for name, found in runs.items():
        counted = found[1:]
        batches = statistics.median(seconds for _, seconds, _ in counted)
        wall = statistics.median(wall for _, _, wall in counted)
        print(f"{name:26} {batches:6.2f} s of micro-batches, {wall:6.2f} s from start to end")


if __name__ == "__main__":
    main()
