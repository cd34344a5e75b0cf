"""How fast is a backlog read? kfetch, Spark's connector and Spark's ceiling by turns, in one run.

    python -m integration.benchmarks.drain [--records N] [--size BYTES] [--partitions N] [--runs N]
        [--codec NAME] [--batch-bytes N] [--skewed] [--agent process|inline] [--tls]
        [--columns NAMES]

A topic is filled by Kafka's own producer; then queries read it from its beginning into Spark's noop
sink with availableNow, in one session (local[N]) and after one warm-up each. A run's time is that
of its micro-batches, so neither side pays for Spark's start. Medians are compared. The ceiling is a
Python data source that yields ready-made batches of the same shape: more is not to be had.
With ``--tls`` both sources read through the broker's listener with TLS.
With ``--columns value,partition,offset`` kfetch and the ceiling also deliver these columns alone.
A producer without linger writes a batch for each record: ``--records 400000 --batch-bytes 0``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from integration.agent.processes import agents_of
from integration.benchmarks import ceiling, stage
from integration.benchmarks.decode import cpu
from integration.benchmarks.fill import BATCH_BYTES, fill, fill_skewed
from integration.secured import SecuredCluster
from kfetch_jobs.kafka import Cluster

TOPIC = "drain"
_TLS = "SSL"
SELECTED = "columns"
"""kfetch with the columns of ``--columns``."""
SELECTED_CEILING = "ceiling, columns"
SOURCES = (*stage.SOURCES, ceiling.NAME, SELECTED, SELECTED_CEILING)
_FORMATS = {SELECTED: "kfetch", SELECTED_CEILING: ceiling.NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One query over the whole topic."""

    source: str
    rows: int
    seconds: float
    """Of the micro-batches, from planning to commit."""
    wall_seconds: float
    """From start() to the query's end."""
    broker_cpu_seconds: float
    agent_user_seconds: float
    """Of the agents' own code."""
    agent_kernel_seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows by the time of the micro-batches."""
        return self.rows / self.seconds


def drain(spark: Any, cluster: Cluster, source: str, options: dict[str, str]) -> Run:
    """Read everything from the beginning, once."""
    rows = spark.readStream.format(_FORMATS.get(source, source)).options(**options).load()
    cpu, agents, began = stage.broker_cpu_seconds(cluster), agent_cpu(), time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(600):
            raise TimeoutError(f"{source} was not done within 600 s")
        wall = time.monotonic() - began
        progress = [p for p in query.recentProgress if p["numInputRows"]]
    user, kernel = (after - before for after, before in zip(agent_cpu(), agents, strict=True))
    return Run(
        source=source,
        rows=sum(p["numInputRows"] for p in progress),
        seconds=sum(p["durationMs"]["triggerExecution"] for p in progress) / 1000,
        wall_seconds=wall,
        broker_cpu_seconds=stage.broker_cpu_seconds(cluster) - cpu,
        agent_user_seconds=user,
        agent_kernel_seconds=kernel,
    )


def agent_cpu() -> tuple[float, float]:
    """The seconds of all agents of this process, their own and the kernel's."""
    times = [agent.cpu_times() for agent in agents_of(psutil.Process())]
    return sum(one.user for one in times), sum(one.system for one in times)


def compare(options: argparse.Namespace) -> list[Run]:
    """All counted runs, alternated."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(_cluster(directory / "kafka", options.tls))
        _fill(cluster, options)
        spark = stage.session(options.cores)
        stack.callback(spark.stop)
        spark.dataSource.register(ceiling.CeilingDataSource)
        asked = _asked(cluster, options)
        for source in asked:
            drain(spark, cluster, source, asked[source])
        runs = []
        for number in range(options.runs):
            for source in asked:
                runs.append(drain(spark, cluster, source, asked[source]))
                print(f"run {number + 1}: {_told(runs[-1])}", file=sys.stderr, flush=True)
        return runs


def _cluster(directory: Path, tls: bool) -> Cluster:
    return SecuredCluster.start_secured(directory, [_TLS]) if tls else Cluster.start(directory)


def _fill(cluster: Cluster, options: argparse.Namespace) -> None:
    filled = fill_skewed if options.skewed else fill
    filled(
        cluster,
        TOPIC,
        partitions=options.partitions,
        records=options.records,
        size=options.size,
        codec=options.codec,
        batch_bytes=options.batch_bytes,
    )


def _asked(cluster: Cluster, options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Each source's options."""
    connection = {"bootstrap.servers": cluster.bootstrap_servers}
    if isinstance(cluster, SecuredCluster):
        connection = cluster.client(_TLS)
    topic = {f"kafka.{name}": value for name, value in connection.items()}
    topic |= {"subscribe": TOPIC, "startingOffsets": "earliest"}
    shape = {"rows": options.records, "size": options.size, "partitions": options.partitions}
    kfetch = {**topic, "kfetch.agent": options.agent}
    ready = {name: str(value) for name, value in shape.items()}
    asked = {"kfetch": kfetch, "kafka": topic, ceiling.NAME: ready}
    if options.columns:
        columns = {"columns": options.columns}
        asked |= {SELECTED: kfetch | columns, SELECTED_CEILING: ready | columns}
    return asked


def _told(run: Run) -> str:
    return (
        f"{run.source:7} {run.rows_per_second:12,.0f} rows/s   {run.seconds:6.2f} s   "
        f"broker CPU {run.broker_cpu_seconds:5.2f} s   wall {run.wall_seconds:6.2f} s   "
        f"agent CPU {run.agent_user_seconds:.2f} + {run.agent_kernel_seconds:.2f} s"
    )


def summary(runs: list[Run]) -> dict[str, Any]:
    """Medians and their ratios."""
    by_source = {
        name: [run for run in runs if run.source == name]
        for name in SOURCES
        if any(run.source == name for run in runs)
    }
    speed = {n: statistics.median(r.rows_per_second for r in rs) for n, rs in by_source.items()}
    cpu = {n: statistics.median(r.broker_cpu_seconds for r in rs) for n, rs in by_source.items()}
    own = by_source["kfetch"]
    agent = [(run.agent_user_seconds + run.agent_kernel_seconds) / run.rows * 1e6 for run in own]
    selected = (
        {
            "columns_ratio": speed[SELECTED] / speed["kfetch"],
            "ceiling_columns_ratio": speed[SELECTED_CEILING] / speed[ceiling.NAME],
        }
        if SELECTED in speed
        else {}
    )
    return selected | {
        "rows_per_second": speed,
        "rows_per_second_ratio": speed["kfetch"] / speed["kafka"],
        "of_ceiling": speed["kfetch"] / speed[ceiling.NAME],
        "broker_cpu_seconds": cpu,
        "broker_cpu_ratio": cpu["kfetch"] / cpu["kafka"],
        "agent_cpu_seconds_per_million": statistics.median(agent),
    }


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes per value")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--codec", default="none")
    parser.add_argument(
        "--batch-bytes", type=int, default=BATCH_BYTES, help="0: a batch for each record"
    )
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each")
    parser.add_argument("--cores", type=int, default=2, help="Spark's task slots")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tls", action="store_true", help="read through TLS")
    parser.add_argument("--skewed", action="store_true", help="80 %% in a fifth of the partitions")
    parser.add_argument("--agent", default="process", help="where kfetch's sessions live")
    parser.add_argument("--columns", default="", help="columns to compare with all of them")
    options = parser.parse_args()
    runs = compare(options)
    found = summary(runs)
    if options.json:
        print(json.dumps({"cpu": cpu(), "runs": [asdict(run) for run in runs], **found}))
        return
    print(cpu())
    for name in found["rows_per_second"]:
        print(
            f"{name:7} {found['rows_per_second'][name]:12,.0f} rows/s   "
            f"broker CPU {found['broker_cpu_seconds'][name]:5.2f} s   (medians)"
        )
    print(
        f"kfetch / kafka: rows/s x {found['rows_per_second_ratio']:.2f}, "
        f"broker CPU x {found['broker_cpu_ratio']:.2f}; "
        f"{found['of_ceiling']:.2f} of the ceiling; agent CPU "
        f"{found['agent_cpu_seconds_per_million']:.2f} s per million rows"
    )
    if options.columns:
        print(
            f"{options.columns} / all columns: rows/s x {found['columns_ratio']:.2f}; "
            f"of the ceiling x {found['ceiling_columns_ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
