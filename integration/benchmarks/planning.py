"""What does a micro-batch cost to plan, when few of many partitions moved? No broker, no Spark.

    python -m integration.benchmarks.planning [--partitions N] [--moved N] [--rounds N]

The driver is the real one. The look-ups are made up, and the watch gets made-up replies instead of
polling. A round is a reply that moves some partitions, then ``latestOffset``,
``reportLatestOffset`` and ``partitions`` of the stream reader; Spark's JSON texts around them are
timed apart. The idle round is one ``latestOffset`` that finds nothing. Memory is the process's,
by partition.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import psutil
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kfetch.fetch.fetcher import AcceptedReply
from kfetch.model import Broker, ClusterView, Leader, Topic, TopicPartition
from kfetch.offsets import Position
from kfetch.options import SourceOptions
from kfetch.session.replies import FetchReply, PartitionReply
from kfetch.spark import options as parsing
from kfetch.spark.source import KfetchStreamReader
from kfetch.watch.driver import Driver
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.poller import Poller
from kfetch.watch.watch import Watch

BROKERS = [Broker(node_id=n, host="127.0.0.1", port=9000 + n) for n in range(3)]
TOPIC = "planned"
LIMIT = ReadAllAvailable()


class MadeUpLookup(OffsetLookup):
    """Partitions led by three brokers in turn, each with 1,000 records at the start."""

    def __init__(self, options: SourceOptions, partitions: int) -> None:
        super().__init__(options)
        leaders = {p: Leader(broker=BROKERS[p % 3], epoch=5) for p in range(partitions)}
        topic = Topic(name=TOPIC, topic_id=uuid.uuid4(), internal=False, leaders=leaders)
        brokers = {broker.node_id: broker for broker in BROKERS}
        self._view = ClusterView(brokers=brokers, topics={TOPIC: topic})

    def cluster_view(self) -> ClusterView:
        return self._view

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        return {tp: Position(1000, 5) for tp in partitions}

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        return {tp: Position(0, 5) for tp in partitions}

    def epoch_ends(self, epochs: Any, leader_epochs: Any) -> dict[TopicPartition, Any]:
        return dict.fromkeys(epochs)


class ScriptedWatch(Watch):
    """A watch that does not poll and gets its replies from the benchmark."""

    def _start(self, poller: Poller) -> None:
        """Start no thread."""

    def wait_for_change(self, timeout_s: float) -> bool:
        """Returns at once: no thread polls."""
        return False

    def deliver(self, moved: dict[TopicPartition, int]) -> None:
        """Replies with these high watermarks."""
        for index, broker in enumerate(BROKERS):
            self.take_position_changes(broker)  # as if the last poll had carried them
            replies = {tp: _reply(end) for tp, end in moved.items() if tp.partition % 3 == index}
            reply = FetchReply(
                version=18, throttle_ms=0, error=0, session_id=1, partitions=(), endpoints={}
            )
            self.accept_reply(broker, AcceptedReply(reply=reply, partitions=replies, positions={}))


def _reply(end: int) -> PartitionReply:
    return PartitionReply(
        key=("", 0),
        error=0,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        diverging=None,
        leader=None,
        aborted=(),
        preferred_read_replica=-1,
        records=memoryview(b""),
    )


def measure(partitions: int, moved: int, rounds: int) -> dict[str, float]:
    """Medians in milliseconds, and bytes per partition."""
    before = psutil.Process().memory_info().rss
    options = parsing.parse(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": TOPIC, "startingOffsets": "latest"}
    )
    watch = ScriptedWatch(options)
    reader = KfetchStreamReader(options)
    reader._driver = Driver(options, watch, MadeUpLookup(options, partitions))
    start = json.dumps(reader.initialOffset())
    began = time.perf_counter()
    reader.latestOffset(json.loads(start), LIMIT)
    first_ms = (time.perf_counter() - began) * 1000
    bytes_each = (psutil.Process().memory_info().rss - before) / partitions
    ends = {TopicPartition(TOPIC, p): 1000 for p in range(partitions)}
    times: dict[str, list[float]] = {name: [] for name in ("tell", "plan", "idle", "json")}
    for _ in range(rounds):
        for tp in random.sample(sorted(ends), moved):
            ends[tp] += 20
        start = one_round(reader, watch, start, ends, times)
    medians = {f"{name}_ms": statistics.median(samples) for name, samples in times.items()}
    return {**medians, "first_ms": first_ms, "bytes_per_partition": bytes_each}


def one_round(
    reader: KfetchStreamReader,
    watch: ScriptedWatch,
    start: str,
    ends: dict[TopicPartition, int],
    times: dict[str, list[float]],
) -> str:
    """One micro-batch, and one idle look-up behind it; the text of its end."""

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        done = work()
        times[name].append((time.perf_counter() - began) * 1000)
        return done

    known = {tp: watch.state.log_end(tp) for tp in ends}
    moved = {tp: end for tp, end in ends.items() if known[tp] and known[tp].offset != end}
    timed("tell", lambda: watch.deliver(moved))
    document, same_document = timed("json", lambda: (json.loads(start), json.loads(start)))

    def plan() -> tuple[dict[str, Any], int]:
        end = reader.latestOffset(document, LIMIT)
        reader.reportLatestOffset()
        return end, len(reader.partitions(same_document, end))

    end, splits = timed("plan", plan)
    if end == document or not splits:
        raise RuntimeError("a micro-batch was to be planned")
    text = timed("json", lambda: json.dumps(end))
    again = json.loads(text)
    timed("idle", lambda: reader.latestOffset(again, LIMIT))
    return str(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--moved", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {n: measure(n, asked.moved, asked.rounds) for n in asked.partitions}
    if asked.json:
        print(json.dumps(found))
        return
    print(f"{asked.moved} partitions moved, medians of {asked.rounds} micro-batches, milliseconds")
    print("partitions   reply taken   planned   idle look-up   JSON, each way   first look-up")
    for n, one in found.items():
        print(
            f"{n:10,} {one['tell_ms']:13.2f} {one['plan_ms']:9.2f} {one['idle_ms']:14.2f} "
            f"{one['json_ms']:16.2f} {one['first_ms']:15.1f}   "
            f"{one['bytes_per_partition']:,.0f} B of memory each"
        )


if __name__ == "__main__":
    main()
