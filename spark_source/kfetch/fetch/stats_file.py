"""Writes and reads the files of statistics below ``kfetch.statsDirectory``. The only writer.

Each process replaces its own file, ``<query>-<pid>.json``, after every read. A program can add the
files up after the run, even the files of processes that were killed. The driver's file has its own
document (``watch/report.py``) in the subdirectory ``driver``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from kfetch.fetch.stats import FetchStats, total

log = logging.getLogger(__name__)


def write_stats(directory: str, query: str, stats: FetchStats) -> None:
    """Replace this process's file for a query with its fetch statistics."""
    write(Path(directory), query, asdict(stats))


def write(directory: Path, query: str, document: Mapping[str, object]) -> None:
    """Replace this process's file for a query, and create the directory if it is missing.

    Logs a warning if the file can't be written: a full disk must not fail a query.
    """
    target = directory / f"{query}-{os.getpid()}.json"
    draft = target.with_suffix(f".{threading.get_ident()}.tmp")  # tasks may end together
    try:
        directory.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(document))
        draft.replace(target)
    except OSError as cause:
        log.warning("fetch statistics can't be written to %s: %s", target, cause)
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def read_stats(directory: Path) -> FetchStats:
    """Returns the sum over the files of a directory: all processes, all queries."""
    return total(FetchStats(**json.loads(path.read_text())) for path in directory.glob("*.json"))
