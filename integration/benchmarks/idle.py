"""What does a query cost while nothing arrives? kfetch and Spark's connector, through a proxy.

    python -m integration.benchmarks.idle [--partitions N …] [--seconds S] [--source NAME …]

For each number of partitions a topic of its own, empty; each source runs a streaming query over it
with the default trigger, and once it is idle the proxy counts for some seconds: requests by API,
bytes there and back. The broker's CPU is that of the same seconds.
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

from kafka import KafkaAdminClient

from integration.benchmarks.proxy import CountingProxy, Tally, proxied
from integration.benchmarks.stage import SOURCES, broker_cpu_seconds, session
from kfetch_jobs.kafka import Cluster

SETTLE_S = 5.0
"""From the first idle moment until counting begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What one idle query cost."""

    source: str
    partitions: int
    seconds: float
    fetch_requests: int
    fetch_request_bytes: float
    """Mean of a request."""
    fetch_reply_bytes: float
    list_offsets: int
    others: int
    """Requests of every other API: metadata, descriptions of topics, …"""
    bytes_per_second: float
    """Of all requests and replies."""
    broker_cpu_percent: float
    """Of one core."""


_PORTION = 4000


def create(address: str, topic: str, partitions: int) -> None:
    """A topic, in portions: Kafka refuses 10,000 partitions at once, and needs a while for them."""
    admin = KafkaAdminClient(bootstrap_servers=address, request_timeout_ms=120_000)
    first = min(partitions, _PORTION)
    admin.create_topics({topic: {"num_partitions": first, "replication_factor": 1}})
    for count in range(first + _PORTION, partitions + _PORTION, _PORTION):
        admin.create_partitions({topic: min(count, partitions)})
    deadline = time.monotonic() + 300
    while True:
        (found,) = admin.describe_topics([topic])
        led = [p for p in found["partitions"] if p.get("leader_id", p.get("leader", -1)) >= 0]
        if len(led) == partitions:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} has {len(led)} of {partitions} partitions after 300 s")
        time.sleep(0.5)
    admin.close()


def watch(
    spark: Any, cluster: Cluster, proxy: CountingProxy, address: str, asked: tuple[str, str, float]
) -> tuple[dict[str, Tally], float, float]:
    """Run a query until it is idle, then count; the tallies, the seconds, the broker's CPU."""
    source, topic, seconds = asked
    rows = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .load()
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            wait_idle(query)
            time.sleep(SETTLE_S)
            proxy.take_tallies()
            cpu, began = broker_cpu_seconds(cluster), time.monotonic()
            time.sleep(seconds)
            tallies, took_s = proxy.take_tallies(), time.monotonic() - began
            return tallies, took_s, broker_cpu_seconds(cluster) - cpu
        finally:
            query.stop()


def wait_idle(query: Any) -> None:
    """Wait until the query has found nothing to do."""
    deadline = time.monotonic() + 300
    while query.status["message"] != "Waiting for data to arrive":
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"the query is not idle: {query.status}")
        time.sleep(0.1)


def to_row(source: str, partitions: int, counted: tuple[dict[str, Tally], float, float]) -> Idle:
    """One line of the table."""
    tallies, seconds, cpu = counted
    fetch, offsets = tallies.get("Fetch", Tally()), tallies.get("ListOffsets", Tally())
    every = sum(t.request_bytes + t.reply_bytes for t in tallies.values())
    return Idle(
        source=source,
        partitions=partitions,
        seconds=seconds,
        fetch_requests=fetch.requests,
        fetch_request_bytes=fetch.mean_request,
        fetch_reply_bytes=fetch.mean_reply,
        list_offsets=offsets.requests,
        others=sum(t.requests for t in tallies.values()) - fetch.requests - offsets.requests,
        bytes_per_second=every / seconds,
        broker_cpu_percent=100 * cpu / seconds,
    )


def compare(options: argparse.Namespace) -> Any:
    """Every line, as soon as it is there."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster, proxy, address = stack.enter_context(proxied(directory / "kafka"))
        spark = session(2)
        stack.callback(spark.stop)
        for partitions in options.partitions:
            topic = f"idle-{partitions}"
            began = time.monotonic()
            create(address, topic, partitions)
            took = time.monotonic() - began
            print(f"{partitions} partitions created in {took:.1f} s", file=sys.stderr, flush=True)
            for source in options.source:
                counted = watch(spark, cluster, proxy, address, (source, topic, options.seconds))
                yield to_row(source, partitions, counted)


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--source", nargs="+", default=list(SOURCES), choices=SOURCES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(
            "partitions  source  fetches  mean request  mean reply  ListOffsets  others"
            "       bytes/s  broker CPU"
        )
    for line in compare(options):
        if options.json:
            print(json.dumps(asdict(line)), flush=True)
            continue
        print(
            f"{line.partitions:10,}  {line.source:6}  {line.fetch_requests:7}  "
            f"{line.fetch_request_bytes:10.1f} B  {line.fetch_reply_bytes:8.1f} B  "
            f"{line.list_offsets:11}  {line.others:6}  {line.bytes_per_second:12,.0f}  "
            f"{line.broker_cpu_percent:8.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
