"""One query in a fresh process: how long until its first micro-batch is committed?

    python -m integration.benchmarks.cold_query SOURCE '{"option": "value", …}'

Prints a JSON object of seconds; ``cold`` runs this and compares.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from integration.agent.processes import cpu_seconds
from integration.benchmarks import ceiling
from integration.benchmarks.stage import session

_PATIENCE_S = 120


def measure(source: str, options: dict[str, str]) -> dict[str, Any]:
    """Seconds of the session's start, of ``load()``, and from ``start()`` to the first commit;
    and the processor time of all processes until then."""
    began = time.monotonic()
    spark = session(2)
    if source == ceiling.NAME:
        spark.dataSource.register(ceiling.CeilingDataSource)
    started = time.monotonic()
    rows = spark.readStream.format(source).options(**options).load()
    loaded = time.monotonic()
    with tempfile.TemporaryDirectory() as checkpoint, _running(rows, checkpoint) as query:
        _wait(query, lambda: (Path(checkpoint) / "commits" / "0").exists())
        committed, cpu = time.monotonic(), cpu_seconds(psutil.Process())
        _wait(query, lambda: any(p["batchId"] == 0 for p in query.recentProgress))
        first = next(p for p in query.recentProgress if p["batchId"] == 0)
    spark.stop()
    return {
        "session": started - began,
        "load": loaded - started,
        "first_commit": committed - loaded,
        "cpu": cpu,
        "rows": first["numInputRows"],
        "phases": {name: ms / 1000 for name, ms in first["durationMs"].items()},
    }


@contextmanager
def _running(rows: Any, checkpoint: str) -> Iterator[Any]:
    """A query that has stopped, whatever happened, before its checkpoint is removed.

    Spark removes a commit's checksum behind the commit. Where the directory went away in that
    moment, the query failed with "commits/..0.<uuid>.tmp.crc does not exist", and that was told in
    place of what had gone wrong here.
    """
    query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        yield query
    finally:
        query.stop()


def _wait(query: Any, condition: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no micro-batch within {_PATIENCE_S} s: {query.status}")
        time.sleep(0.002)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], json.loads(sys.argv[2]))))
