"""Runs a job as one of several hosts that have the same checkpoint, in a process of its own.

    python -m integration.storage.host '{"files": …, "machine": …, "length_s": …, "paused": …}'

For the lease, the process is on a machine of this name, or on its own without a name. ``paused``:
it is as a virtual machine that was paused whole. Its clock stands still while it is stopped, and no
timer of the kernel ends it. It prints a line for each micro-batch, and the error at the end.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kfetch.errors import KfetchError
from kfetch.storage import processes
from kfetch_jobs import config
from kfetch_jobs.jvm import spark
from kfetch_jobs.run import job_lock, run

_TICK_S = 0.3
"""The longest time that passes between two looks at a paused clock."""


def main(asked: dict[str, Any]) -> int:
    """Run the job ``clicks``. Returns the exit code."""
    patch: Any = job_lock
    patch._LENGTH_S = asked["length_s"]
    if asked["machine"]:
        processes._machine = lambda: str(asked["machine"])
    if asked["paused"]:
        ticking = _ticking()
        patch.clock = lambda **_: ticking
        patch.process_end = lambda **_: None
        spark.die_with_parent = lambda: lambda: None  # type: ignore[attr-defined]
    job = config.load(Path(asked["files"]) / "kfetch.yml", {}).job("clicks")
    try:
        run(job, lambda batch: print(f"batch {batch.batch}: {batch.rows} rows", flush=True))
    except KfetchError as error:
        print(f"error: {error}", flush=True)
        return 1
    return 0


def _ticking() -> Callable[[], float]:
    last, total = time.monotonic(), 0.0

    def read() -> float:
        nonlocal last, total
        now = time.monotonic()
        total, last = total + min(now - last, _TICK_S), now
        return total

    return read


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
