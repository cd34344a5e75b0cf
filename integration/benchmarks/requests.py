"""What a micro-batch asks for: bytes of fetch requests while a few of many partitions carry data.

    python -m integration.benchmarks.requests [--partitions N] [--moved N,N,…] [--batches N]
        [--plot FILE] [--json]

A real broker and agent; planning and reading as Spark does them. The first micro-batch reads every
partition and opens the session: that is the full request. Then, for each number of moved
partitions, micro-batches in which so many carry data, others each time; one before them is not
counted, because it also forgets the partitions of the number before. Bytes are those on the wire,
as the fetcher counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer

from integration.agent.reader import Reader
from integration.records import producer
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import read_stats
from kfetch_jobs.kafka import Cluster

MOVED = (10, 100, 200, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Incremental requests while so many partitions moved per micro-batch."""

    moved: int
    batches: int
    requests: int
    request_bytes: int

    @property
    def mean_bytes(self) -> float:
        """Of a request."""
        return self.request_bytes / self.requests

    @property
    def bytes_per_moved(self) -> float:
        """Of all requests of a micro-batch, by its partitions."""
        return self.request_bytes / self.batches / self.moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """All that was measured."""

    partitions: int
    full_request_bytes: int
    """Of the request that named every partition."""
    points: list[Point]


def measure(
    cluster: Cluster, topic: str, directory: Path, *, moved: tuple[int, ...], batches: int
) -> Curve:
    """The curve over a topic that is there and empty. ``directory`` is for files of the agent."""
    statistics = directory / "statistics"
    with (
        producer(cluster, linger_ms=5) as sender,
        closing(Reader(cluster, topic, "process", statistics)) as reader,
    ):
        trickle = Trickle(sender, topic)
        trickle.batch(reader, len(trickle.partitions))
        opened = read_stats(statistics)
        if opened.full_requests != 1:
            raise RuntimeError(f"not one full request opened the session: {opened}")
        points = []
        for count in moved:
            trickle.batch(reader, count)
            before = read_stats(statistics)
            for _ in range(batches):
                trickle.batch(reader, count)
            points.append(_point(count, batches, before, read_stats(statistics)))
    return Curve(
        partitions=len(trickle.partitions),
        full_request_bytes=opened.full_request_bytes,
        points=points,
    )


class Trickle:
    """Micro-batches in which some partitions, others each time, carry one record of 100 bytes."""

    def __init__(self, sender: KafkaProducer, topic: str) -> None:
        self.partitions = sorted(sender.partitions_for(topic))
        self._sender = sender
        self._topic = topic
        self._chance = random.Random(7)

    def batch(self, reader: Reader, count: int) -> None:
        """Write to so many partitions, and read it."""
        for partition in self._chance.sample(self.partitions, count):
            self._sender.send(self._topic, b"x" * 100, partition=partition)
        self._sender.flush(60)
        read = sum(batch.num_rows for batch in reader.batches())
        if read != count:
            raise RuntimeError(f"{read} records came instead of {count}")


def _point(moved: int, batches: int, before: FetchStats, after: FetchStats) -> Point:
    if after.full_requests != before.full_requests:
        raise RuntimeError(f"the session began again meanwhile: {before}, then {after}")
    return Point(
        moved=moved,
        batches=batches,
        requests=after.incremental_requests - before.incremental_requests,
        request_bytes=after.incremental_request_bytes - before.incremental_request_bytes,
    )


def run(partitions: int, moved: tuple[int, ...], batches: int) -> Curve:
    """The curve over a broker and a topic of its own."""
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as cluster:
        os.environ["XDG_RUNTIME_DIR"] = name  # an agent of our own, whoever started this process
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            asked = {"num_partitions": partitions, "replication_factor": 1}
            admin.create_topics({"requests": asked}, wait_for_metadata=True)
        return measure(cluster, "requests", Path(name), moved=moved, batches=batches)


def table(curve: Curve) -> str:
    """The curve as text."""
    lines = [
        f"{'moved':>6} {'micro-batches':>14} {'requests':>9} {'mean bytes':>11} "
        f"{'of a full one':>14} {'bytes per moved':>16}"
    ]
    lines += [
        f"{p.moved:6} {p.batches:14} {p.requests:9} {p.mean_bytes:11,.0f} "
        f"{p.mean_bytes / curve.full_request_bytes:14.1%} {p.bytes_per_moved:16.1f}"
        for p in curve.points
    ]
    full = f"a full request of {curve.partitions:,} partitions: {curve.full_request_bytes:,} bytes"
    return "\n".join([*lines, full])


def plot(curve: Curve, file: Path) -> None:
    """The curve as a picture; the file's suffix says which format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    moved, sizes = zip(*((p.moved, p.mean_bytes) for p in curve.points), strict=True)
    axes.loglog(moved, sizes, "o-", label="incremental request, mean")
    axes.axhline(curve.full_request_bytes, color="gray", ls="--", label="full request")
    axes.set_xlabel(f"partitions of {curve.partitions:,} that moved in the micro-batch")
    axes.set_ylabel("bytes on the wire")
    axes.legend()
    figure.savefig(file)


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--moved", default=",".join(map(str, MOVED)), help="partitions, N,N,…")
    parser.add_argument("--batches", type=int, default=20, help="micro-batches of each")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    curve = run(options.partitions, tuple(map(int, options.moved.split(","))), options.batches)
    if options.plot:
        plot(curve, options.plot)
    print(json.dumps(asdict(curve)) if options.json else table(curve))


if __name__ == "__main__":
    main()
