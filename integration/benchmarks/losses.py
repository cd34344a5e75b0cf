"""What do the sources make of records that are gone? Four faults of a real cluster, in a table.

    python -m integration.benchmarks.losses [--json]

For each fault a topic is read to its end by kfetch and by Spark's connector, with
failOnDataLoss=true and =false, each on a checkpoint of its own; then the fault happens, records
are written, and each goes on from its checkpoint. What should come is every record that the log
holds now and that the checkpoint has not counted as read; a failure should say what was lost.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import StreamingQueryException

from integration.benchmarks.stage import SOURCES, session, stream
from integration.faults.test_broker import delete, recreate
from integration.faults.test_truncation import LOST, NEW, Unclean
from integration.records import numbered, write
from integration.streams import drain
from kfetch_jobs.kafka import Cluster

OLD, KEPT_OF_OLD = 10, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one source made of one fault."""

    fault: str
    source: str
    fail_on_data_loss: bool
    error: str
    """The error's name; empty if the query went on."""
    missing: int
    """Records of the log of now that were not delivered."""
    expected: int
    unexpected: int
    """Rows that came twice, or from nowhere."""

    def __str__(self) -> str:
        if self.error:
            return f"fails: {self.error}"
        if not (self.missing or self.unexpected):
            return f"all {self.expected} new records, once"
        missing = f"{self.missing} of {self.expected} new records missing, silently"
        return missing + (f", {self.unexpected} unexpected" if self.unexpected else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, and what it leaves to be read."""

    name: str
    topics: str
    strike: Callable[[], None]
    expected: list[str]


def faults(cluster: Cluster) -> Iterator[Fault]:
    """One by one, each with its topics filled; the last one kills brokers."""
    servers = {"bootstrap_servers": cluster.bootstrap_servers}
    with closing(KafkaAdminClient(**servers)) as admin:
        for name in ("recreated", "expired", "deleted", "stays"):
            admin.create_topics(
                {name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
            )
            write(cluster, name, numbered("old", OLD))

        def recreated() -> None:
            recreate(cluster, "recreated")
            write(cluster, "recreated", numbered("new", 2 * OLD))

        yield Fault(
            name="topic deleted, created again, grown past the checkpoint",
            topics="recreated",
            strike=recreated,
            expected=numbered("new", 2 * OLD),
        )

        def expired() -> None:
            write(cluster, "expired", numbered("new", 2 * OLD))
            admin.delete_records({TopicPartition("expired", 0): OLD + KEPT_OF_OLD})

        yield Fault(
            name="retention past the checkpoint",
            topics="expired",
            strike=expired,
            expected=numbered("new", 2 * OLD)[KEPT_OF_OLD:],
        )

        def deleted() -> None:
            delete(cluster, "deleted")
            write(cluster, "stays", numbered("new", OLD))

        yield Fault(
            name="one of two topics deleted",
            topics="deleted,stays",
            strike=deleted,
            expected=numbered("new", OLD),
        )
        replicated = {
            "num_partitions": 1,
            "replication_factor": 2,
            "configs": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
        }
        admin.create_topics({"truncated": replicated}, wait_for_metadata=True)
    unclean = Unclean(cluster, "truncated")
    unclean.fill()

    def truncated() -> None:
        unclean.truncate()
        unclean.regrow()

    yield Fault(
        name=f"unclean election cuts {LOST} records below the checkpoint, the log grows past it",
        topics="truncated",
        strike=truncated,
        expected=numbered("new", NEW),
    )


def compare() -> list[Outcome]:
    """Every fault with both sources and both settings."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster.start(directory / "kafka", nodes=3))
        spark = session(2)
        stack.callback(spark.stop)
        found: list[Outcome] = []
        for number, fault in enumerate(faults(cluster)):
            for outcome in _suffered(spark, cluster, fault, directory / str(number)):
                print(f"{outcome.fault}: {outcome.source}: {outcome}", file=sys.stderr, flush=True)
                found.append(outcome)
        return found


def _suffered(spark: Any, cluster: Cluster, fault: Fault, directory: Path) -> Iterator[Outcome]:
    cases = [(source, fail) for source in SOURCES for fail in (True, False)]
    queries = {
        (source, fail): stream(
            spark,
            cluster,
            fault.topics,
            source,
            startingOffsets="earliest",
            failOnDataLoss=str(fail).lower(),
        )
        for source, fail in cases
    }
    for (source, fail), frame in queries.items():
        drain(frame, directory / f"{source}-{fail}")
    fault.strike()
    for (source, fail), frame in queries.items():
        error, values = _resumed(frame, directory / f"{source}-{fail}")
        wanted, came = Counter(fault.expected), Counter(values)
        yield Outcome(
            fault=fault.name,
            source=source,
            fail_on_data_loss=fail,
            error=error,
            missing=(wanted - came).total(),
            expected=wanted.total(),
            unexpected=(came - wanted).total(),
        )


def _resumed(frame: Any, checkpoint: Path) -> tuple[str, list[str]]:
    try:
        return "", drain(frame, checkpoint).values
    except StreamingQueryException as failed:
        return _name(str(failed)), []


def _name(text: str) -> str:
    """The error's name: kfetch's class, or Spark's error condition, or Kafka's exception."""
    for pattern in (
        r"errors\.(\w+): ",
        r"\[([A-Z_.]*DATA_LOSS[A-Z_.]*|[A-Z_]*KAFKA[A-Z_.]*)\]",
        r"(\w+Exception): (?!\[STREAM_FAILED)",
    ):
        if match := re.search(pattern, text):
            return match[1]
    return text.splitlines()[0][:120]


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = compare()
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in found]))
        return
    print("| fault | failOnDataLoss | kfetch | Spark's connector |\n|---|---|---|---|")
    by = {(o.fault, o.fail_on_data_loss, o.source): o for o in found}
    for fault in dict.fromkeys(o.fault for o in found):
        for fail in (True, False):
            cells = " | ".join(str(by[fault, fail, source]) for source in SOURCES)
            print(f"| {fault} | {str(fail).lower()} | {cells} |")


if __name__ == "__main__":
    main()
