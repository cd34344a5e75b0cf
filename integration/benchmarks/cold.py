"""How long until a new query has committed its first micro-batch, in a fresh Spark?

    python -m integration.benchmarks.cold [--records N] [--runs N] [--row NAME …] [--json]

Every run is a new process with a new session (local[2]); the sources take turns, medians are
compared. Spark's connector and kfetch read the same small topic; the ceiling is a Python data
source that only yields ready-made batches, so what it needs is Spark's own price of Python. In one
row the code cache is empty and the agent compiles its kernel; in another ``pyspark.zip`` has
bytecode, as docs/how-to/tune.md advises. Phases are Spark's own (``durationMs``); what is before
the first of them is the query's start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from integration.benchmarks import ceiling
from integration.benchmarks.fill import fill
from kfetch.admin.bytecode import add_bytecode
from kfetch_jobs.jvm.spark import cause_of
from kfetch_jobs.kafka import Cluster

ROOT = Path(__file__).parents[2]
TOPIC = "cold"
PARTITIONS, SIZE = 8, 100
PHASES = ("latestOffset", "queryPlanning", "addBatch", "triggerExecution")

Run = dict[str, Any]


def cases(cluster: Cluster, records: int) -> dict[str, tuple[str, dict[str, str]]]:
    """Source and options of each row."""
    topic = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
    }
    shape = {"rows": str(records), "size": str(SIZE), "partitions": str(PARTITIONS)}
    process = {**topic, "kfetch.agent": "process"}
    return {
        "connector": ("kafka", topic),
        "kfetch, agent process": ("kfetch", process),
        "kfetch, agent inline": ("kfetch", {**topic, "kfetch.agent": "inline"}),
        "ceiling": (ceiling.NAME, shape),
        EMPTY_CACHE: ("kfetch", process),
        COMPILED: ("kfetch", process),
    }


EMPTY_CACHE, COMPILED = "process, empty cache", "process, bytecode"
ROWS = (
    "connector",
    "kfetch, agent process",
    "kfetch, agent inline",
    ceiling.NAME,
    EMPTY_CACHE,
    COMPILED,
)


def compare(records: int, runs: int, chosen: Collection[str]) -> dict[str, list[Run]]:
    """All counted runs by row, alternated, after one of each that warms the caches."""
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as cluster:
        fill(cluster, TOPIC, partitions=PARTITIONS, records=records, size=SIZE)
        rows = {row: case for row, case in cases(cluster, records).items() if row in chosen}
        settings = {COMPILED: {"SPARK_HOME": str(compiled_spark(Path(name) / "spark"))}}
        counted: dict[str, list[Run]] = {row: [] for row in rows}
        for number in range(runs + 1):
            for row, (source, options) in rows.items():
                given = settings.get(row, {})
                done = once(source, options, given, cold_cache=row == EMPTY_CACHE)
                if done["rows"] != records:
                    raise RuntimeError(f"{row}: {done['rows']} rows instead of {records}")
                if number:
                    counted[row].append(done)
                    print(f"run {number}: {_line(row, done)}", file=sys.stderr, flush=True)
        return counted


def compiled_spark(place: Path) -> Path:
    """A Spark beside the installed one, made of links, whose ``pyspark.zip`` holds bytecode."""
    installed = Path(pyspark.__path__[0])
    library = place / "python" / "lib"
    library.mkdir(parents=True)
    for each in [*installed.iterdir(), *(installed / "python" / "lib").iterdir()]:
        if each.name not in ("python", "pyspark.zip"):
            (place / each.relative_to(installed)).symlink_to(each)
    shutil.copy(installed / "python" / "lib" / "pyspark.zip", library)
    add_bytecode(library / "pyspark.zip")
    return place


def once(
    source: str, options: dict[str, str], settings: dict[str, str], *, cold_cache: bool = False
) -> Run:
    """One run in a process of its own; ``settings`` are of its environment."""
    command = [sys.executable, "-m", "integration.benchmarks.cold_query"]
    with _environment(cold_cache) as environment:
        done = subprocess.run(
            [*command, source, json.dumps(options)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=ROOT,
            env=environment | settings,
        )
    if done.returncode:
        raise RuntimeError(f"{source} failed: {cause_of(RuntimeError(done.stderr))}")
    told: Run = json.loads(done.stdout.splitlines()[-1])
    return told


@contextmanager
def _environment(cold_cache: bool) -> Iterator[dict[str, str]]:
    """This process's, with an empty directory for kfetch's caches if asked for."""
    with tempfile.TemporaryDirectory() as empty:
        yield {**os.environ, "KFETCH_CACHE": empty} if cold_cache else dict(os.environ)


def medians(runs: list[Run]) -> Run:
    """The median of each figure."""
    middle: Run = {
        name: statistics.median(run[name] for run in runs)
        for name in ("session", "load", "first_commit", "cpu")
    }
    middle["phases"] = {
        name: statistics.median(run["phases"].get(name, 0.0) for run in runs) for name in PHASES
    }
    return middle


def _line(row: str, run: Run) -> str:
    phases = "".join(f"{run['phases'].get(name, 0.0):{len(name) + 2}.2f}" for name in PHASES)
    head = f"{row:22} {run['session']:8.2f} {run['load']:6.2f} {run['first_commit']:13.2f}"
    return f"{head} {run['cpu']:6.1f} {phases}"


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each")
    parser.add_argument("--row", nargs="+", choices=ROWS, default=ROWS, metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = compare(options.records, options.runs, {"connector", *options.row})
    found = {row: medians(done) for row, done in runs.items()}
    if options.json:
        print(json.dumps({"runs": runs, "medians": found}))
        return
    phases = "".join(f"  {name}" for name in PHASES)
    print(f"{'medians, s':22} {'session':>8} {'load':>6} {'start..commit':>13} {'CPU':>6} {phases}")
    for row, middle in found.items():
        ratio = middle["first_commit"] / found["connector"]["first_commit"]
        print(f"{_line(row, middle)}   x {ratio:.2f}")


if __name__ == "__main__":
    main()
