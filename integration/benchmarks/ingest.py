"""kafka-delta-ingest as a contestant: a program in Rust that copies a topic of JSON into a table.

Its repository has no releases. There, ``cargo build --release`` takes 20 minutes on two cores.
Source: https://github.com/delta-io/kafka-delta-ingest, commit c6d42de.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Field, Schema

from kfetch_jobs.kafka import Cluster

_COLUMNS = [
    ("id", "long"), ("customer", "string"), ("amount", "double"), ("country", "string"),
    ("confirmed", "boolean"), ("partition", "integer"), ("offset", "long"),
]  # fmt: skip
INGEST = "kafka-delta-ingest"
_ROWS = 100_000
"""The most rows of one of its batches: its default, 5,000, makes it slower."""


class Ingest:
    """A running kafka-delta-ingest, with what the benchmark asks of Spark's queries."""

    def __init__(self, binary: Path, cluster: Cluster, topic: str, directory: str) -> None:
        """Makes the table, and starts the program. It ends where the topic ends now."""
        self._table = f"{directory}/table"
        DeltaTable.create(self._table, Schema([Field(*column) for column in _COLUMNS]))
        self._began, self._wall = time.monotonic(), 0.0
        self._process = subprocess.Popen(
            [
                str(binary), "ingest", topic, self._table, "--ends_at_latest_offsets",
                "--kafka", cluster.bootstrap_servers, "--auto_offset_reset", "earliest",
                "--consumer_group", uuid.uuid4().hex, "--max_messages_per_batch", str(_ROWS),
                "--transform", "partition: kafka.partition", "--transform", "offset: kafka.offset",
                "--allowed_latency", "5",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def awaitTermination(self, seconds: float) -> bool:
        """Returns whether it ended in time. Raises CalledProcessError if it failed."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return False
        if code:
            raise subprocess.CalledProcessError(code, self._process.args)
        self._wall = time.monotonic() - self._began
        return True

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """Its whole time, as one micro-batch: with its start, and until its group had a leader."""
        adds = DeltaTable(self._table).get_add_actions(flatten=True)
        spent = self._wall * 1000
        durations = {"triggerExecution": spent, "addBatch": spent}
        return [{"numInputRows": sum(adds["num_records"].to_pylist()), "durationMs": durations}]
