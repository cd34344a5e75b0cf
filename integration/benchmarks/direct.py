"""Into a Delta table: Spark's connector, kfetch through Spark, and kfetch.delta, by turns.

    python -m integration.benchmarks.direct [--format json|avro] [--fields 5|40] [--records N]
        [--partitions N] [--runs N] [--cores N] [--only NAME …] [--by-day] [--json]
        [--ingest PROGRAM]

A topic is filled as for the benchmark ``typed``. Queries read it with availableNow into a new table
each, in one session and after one warm-up each: the struct's fields, the partition and the offset,
and raw records with all columns. The times are those of the micro-batches, of their writes,
and from start() to the end of the query. The CPU time is that of the whole machine: Spark, workers,
agent and broker. So nothing else may run. After each run delta-rs counts the table's rows.
With ``--ingest``, kafka-delta-ingest copies the JSON of five fields, too, without the timestamp.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from integration.benchmarks import stage
from integration.benchmarks.decode import cpu
from integration.benchmarks.ingest import INGEST, Ingest
from integration.benchmarks.typed import DELTA, TOPIC, UTC, Run, median_run, run, write
from integration.benchmarks.typed_values import KINDS, TypedValues
from kfetch import delta
from kfetch_jobs.jvm.spark import delta_jars
from kfetch_jobs.kafka import Cluster

_BY_DAY = {"day": "date(timestamp, 'UTC')"}
_FLAT = {"columns": "value,partition,offset,timestamp", "valueFields": "flat"}

Start = Callable[[str], Any]
"""Starts a query. It gets a directory for its checkpoint and its table."""


def _contestants(
    spark: Any, cluster: Cluster, values: TypedValues, chosen: argparse.Namespace
) -> dict[str, Start]:
    """Returns the starts by name, each pair of them with the same rows."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
    }
    typed = {**options, **_FLAT, **values.options}

    def connector(parse: bool) -> Any:
        frame = stage.stream(spark, cluster, TOPIC, "kafka", startingOffsets="earliest")
        parsed = frame.select(values.parsed.alias("v"), "partition", "offset", "timestamp")
        return parsed.select("v.*", "partition", "offset", "timestamp") if parse else frame

    def through_spark(frame: Callable[[], Any]) -> Start:
        return lambda directory: _started(frame(), directory, chosen.by_day)

    def load(given: Mapping[str, str]) -> Any:
        return spark.readStream.format("kfetch").options(**given).load()

    def straight(given: Mapping[str, str]) -> Start:
        return lambda directory: delta.stream(
            spark,
            given,
            table=f"{directory}/table",
            checkpoint=f"{directory}/checkpoint",
            trigger={"availableNow": True},
            partition_by=_BY_DAY if chosen.by_day else {},
        )

    others: dict[str, Start] = {}
    if chosen.ingest:
        others[INGEST] = partial(Ingest, chosen.ingest, cluster, TOPIC, chosen.records)
    return {
        f"connector + {values.function}": through_spark(lambda: connector(True)),
        f"kfetch {values.name}": through_spark(lambda: load(typed)),
        f"straight {values.name}": straight(typed),
        "connector, raw": through_spark(lambda: connector(False)),
        "kfetch, raw": through_spark(lambda: load(options)),
        "straight, raw": straight(options),
        **others,
    }


def _started(frame: Any, directory: str, by_day: bool) -> Any:
    from pyspark.sql import functions as F

    writer = (frame.withColumn("day", F.to_date("timestamp")) if by_day else frame).writeStream
    writer = writer.partitionBy("day") if by_day else writer
    writer = writer.format("delta").option("checkpointLocation", f"{directory}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{directory}/table")


def _measured(start: Start, records: int) -> tuple[Run, float]:
    """Returns the run, and the megabytes of the table's files. Fails if rows are missing."""
    sizes: list[float] = []

    def look(directory: str) -> None:
        actions = DeltaTable(f"{directory}/table").get_add_actions(flatten=True)
        rows = sum(actions["num_records"].to_pylist())
        assert rows == records, (rows, records)
        sizes.append(sum(actions["size_bytes"].to_pylist()) / 1e6)

    return replace(run(start, look), rows=records), sizes[0]


def main() -> None:
    """Run the benchmark and print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--format", choices=("json", "avro"), default="json")
    parser.add_argument("--fields", type=int, choices=(5, 40), default=5)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="starts of names")
    parser.add_argument("--by-day", action="store_true", help="partitioned by day")
    parser.add_argument("--ingest", type=Path, help="the program kafka-delta-ingest")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.ingest and (chosen.format, chosen.fields, chosen.by_day) != ("json", 5, False):
        parser.error("--ingest goes with JSON of five fields, not by day")
    runs, sizes = _compare(chosen)
    if chosen.json:
        print(json.dumps({name: [asdict(one) for one in found] for name, found in runs.items()}))
        return
    print(cpu())
    medians = {name: median_run(found) for name, found in runs.items()}
    for name, one in medians.items():
        print(f"{name:22} {one}, files of {sizes[name]:.1f} MB   (medians)")
    _print_ratios(medians)


def _print_ratios(medians: Mapping[str, Run]) -> None:
    """Print how the last of each kind compares with the others."""
    for kind in {name.split()[-1] for name in medians if name.startswith("straight")}:
        own = medians[f"straight{',' if kind == 'raw' else ''} {kind}"]
        for name, one in medians.items():
            if not name.startswith("straight") and (kind == "raw") == ("raw" in name):
                print(
                    f"straight, {kind}: {one.batches / own.batches:.1f} times as fast as {name}, "
                    f"from start to end {one.wall / own.wall:.1f} times, with "
                    f"{own.cpu / one.cpu:.2f} of its CPU"
                )


def _compare(chosen: argparse.Namespace) -> tuple[dict[str, list[Run]], dict[str, float]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values = KINDS[chosen.format](chosen.fields, directory)
        cluster = stack.enter_context(Cluster.start(directory / "kafka"))
        spark = stage.session(chosen.cores, UTC | DELTA, [*values.jars(), *delta_jars()])
        stack.callback(spark.stop)
        write(spark, cluster, values.values, chosen)
        starts = _contestants(spark, cluster, values, chosen)
        if chosen.only:
            starts = {n: s for n, s in starts.items() if n.startswith(tuple(chosen.only))}
        runs: dict[str, list[Run]] = {name: [] for name in starts}
        sizes = {}
        for number in range(chosen.runs + 1):
            for name, start in starts.items():
                one, sizes[name] = _measured(start, chosen.records)
                print(f"run {number}: {name:22} {one}", file=sys.stderr, flush=True)
                runs[name] += [one] if number else []  # the first run warms up
        return runs, sizes


if __name__ == "__main__":
    main()
