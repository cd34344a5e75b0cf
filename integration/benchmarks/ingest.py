"""kafka-delta-ingest as a contestant: a program in Rust that copies a topic of JSON into a table.

Its repository has no releases. There, ``cargo build --release`` takes 20 minutes on two cores.
Source: https://github.com/delta-io/kafka-delta-ingest, commit c6d42de.
"""

from __future__ import annotations

import os
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

    def __init__(
        self, binary: Path, cluster: Cluster, topic: str, records: int, directory: str
    ) -> None:
        """Makes the table, and starts the program. ``records``: how many the topic has."""
        self._table, self._records = f"{directory}/table", records
        DeltaTable.create(self._table, Schema([Field(*column) for column in _COLUMNS]))
        self._began, self._wall = time.monotonic(), 0.0
        self._process = subprocess.Popen(
            [
                str(binary), "ingest", topic, self._table,
                "--kafka", cluster.bootstrap_servers, "--auto_offset_reset", "earliest",
                "--consumer_group", uuid.uuid4().hex, "--max_messages_per_batch", str(_ROWS),
                "--transform", "partition: kafka.partition", "--transform", "offset: kafka.offset",
                "--allowed_latency", "2",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def awaitTermination(self, seconds: float) -> bool:
        """Returns whether all records came in time, and ends the program, which goes on for ever.

        ``--ends_at_latest_offsets`` does not end it. Raises CalledProcessError if it has failed.
        """
        log, versions = Path(self._table, "_delta_log"), 1
        while self._wall < seconds:
            time.sleep(0.05)
            self._wall = time.monotonic() - self._began
            if self._process.poll() is not None:
                raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
            if len(os.listdir(log)) > versions:
                versions = len(os.listdir(log))
                if self._rows() >= self._records:
                    break
        self._process.kill()
        self._process.wait()
        return self._wall < seconds

    def _rows(self) -> int:
        actions = DeltaTable(self._table).get_add_actions(flatten=True)
        return sum(actions["num_records"].to_pylist())

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """Its whole time, as one micro-batch: with its start, and until its group had a leader."""
        spent = self._wall * 1000
        durations = {"triggerExecution": spent, "addBatch": spent}
        return [{"numInputRows": self._rows(), "durationMs": durations}]
