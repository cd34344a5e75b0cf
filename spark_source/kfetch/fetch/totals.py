"""Adds up what fetching costs, and writes and reads the sums below ``kfetch.statsDirectory``.

Each process replaces its own file, ``<query>-<number>.json``, after every read. A program can add
the files up after the run, even the files of processes that were killed. A query's driver has its
own document, ``driver/<query>-<number>.json``: its data losses, and the cost of its watch sessions.

    {"losses": {"LogTruncated": 1}, "watch": {"full_requests": 1, "incremental_requests": 41, …}}

Nothing else writes these files. The first write of a process removes those of a day before, so a
run that never ends has a limit, too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from secrets import randbits
from typing import Any

from kfetch.fetch.stats import ADD, FetchStats, total

log = logging.getLogger(__name__)

_KEPT_S = 86_400.0
"""Seconds for which a file stays after its last change."""
_NAME = re.compile(r"[0-9a-f]{32}-\d+\.(json|\d+\.tmp)")
"""A process that was killed may leave its draft."""
_NUMBER = randbits(32)
"""Processes of two containers may have one pid. A forked process keeps this number."""


class Totals:
    """The running totals of a query. Any thread may use them."""

    def __init__(self) -> None:
        self._sums = asdict(FetchStats())
        self._lock = threading.Lock()

    def add(self, **counts: Any) -> None:
        """Raise some fields of FetchStats by their values. Raises KeyError for another name."""
        with self._lock:
            for name, value in counts.items():
                self._sums[name] = ADD[name](self._sums[name], value)

    def stats(self) -> FetchStats:
        """Returns the totals until now."""
        with self._lock:
            return FetchStats(**self._sums)


def write_stats(directory: str, query: str, stats: FetchStats) -> None:
    """Replace this process's file for a query with its fetch statistics."""
    _write_own(Path(directory), query, asdict(stats))


def own_stats(directory: str, query: str) -> FetchStats:
    """Returns what this process's file for a query holds: it may open the query more than once."""
    with suppress(OSError, ValueError):
        return _read(_file(Path(directory), query))
    return FetchStats()


def _file(directory: Path, query: str) -> Path:
    return directory / f"{query}-{os.getpid()}{_NUMBER:010}.json"


def write(target: Path, document: Mapping[str, object]) -> None:
    """Replace a file of this process, and create the directory if it is missing.

    Logs a warning if the file can't be written: a full disk must not fail a query.
    """
    draft = target.with_suffix(f".{threading.get_ident()}.tmp")  # tasks may end together
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(document))
        draft.replace(target)
    except OSError as cause:
        log.warning("kfetch: %s can't be written: %s", target, cause)
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def read_stats(directory: Path) -> FetchStats:
    """Returns the sum over the files of a directory: all processes, all queries."""
    return total(map(_read, directory.glob("*.json")))


def _read(file: Path) -> FetchStats:
    """Returns the counts of a file, without those that only another release knows."""
    counts = json.loads(file.read_text())
    return FetchStats(**{name: counts[name] for name in ADD if name in counts})


def write_driver_stats(
    directory: str, query: str, watch: FetchStats, losses: Mapping[str, int]
) -> None:
    """Replace the document of a query's driver: the cost of its watch, and its data losses."""
    document = {"losses": dict(losses), "watch": asdict(watch)}
    _write_own(Path(directory) / "driver", query, document)


def _write_own(directory: Path, query: str, document: Mapping[str, object]) -> None:
    file = _file(directory, query)
    if not file.exists():
        _remove_old(directory)
    write(file, document)


def _remove_old(directory: Path) -> None:
    """Remove the files of statistics that nobody has changed for a day.

    Other files of the directory stay. So does a file that can't be removed.
    """
    old_s = time.time() - _KEPT_S
    with suppress(OSError):
        for path in directory.iterdir():
            with suppress(OSError):
                if _NAME.fullmatch(path.name) and path.stat().st_mtime < old_s:
                    path.unlink()
