"""Runs a job and kills itself between two commits: ``python -m integration.running.killed_write``.

Arguments: the project's directory, and the step after which the process dies: the commit of letters
or of rows. If tasks write the files: ``files``, before a commit, or ``first``, after the first one.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from integration.streams import finish
from kfetch.delta.log import TableLog
from kfetch_jobs import config
from kfetch_jobs.jvm.spark import session
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.tables import unfenced


def _die_after(commit: str) -> None:
    write_rows = delta_sink._write_rows

    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write(*args: Any, **more: Any) -> None:
        if commit == "rows":
            write_rows(*args, **more)
        die()

    delta_sink._write_rows = write
    add, commits = TableLog._add, [commit] if commit == "first" else []

    def dying_add(self: TableLog, *args: Any) -> None:
        if not commits:
            die()
        commits.pop()
        add(self, *args)

    if commit in ("files", "first"):
        TableLog._add = dying_add  # type: ignore[method-assign]


def main() -> None:
    """Run the project's one job until the commit."""
    directory, commit = Path(sys.argv[1]), sys.argv[2]
    made = config.load(directory / "kfetch.yml", {}).job("one")
    _die_after(commit)
    with session(made.spark, name="killed", log=directory / "killed.log") as spark:
        finish(delta_sink.start(spark, made, unfenced))


if __name__ == "__main__":
    main()
