"""The driver's statistics file: the data losses of a query, and the cost of its watch sessions.

With ``kfetch.statsDirectory`` the driver keeps a file ``driver/<query>-<pid>.json`` there, beside
the fetch statistics of the workers:

    {"losses": {"LogTruncated": 1}, "watch": {"full_requests": 1, "incremental_requests": 41, …}}
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kfetch.fetch.stats import FetchStats

__all__ = ["DriverStatistics"]

log = logging.getLogger(__name__)


class DriverStatistics:
    """Writes one query's file. Without a directory it writes nothing."""

    def __init__(self, directory: str, query: str) -> None:
        name = f"{query}-{os.getpid()}.json"
        self._path = Path(directory) / "driver" / name if directory else None

    def write(self, watch: FetchStats, losses: Mapping[str, int]) -> None:
        """Replace the file. A full disk must not fail a query, so an OSError is only logged."""
        if self._path is None:
            return
        draft = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"losses": dict(losses), "watch": asdict(watch)}))
            draft.replace(self._path)
        except OSError as cause:
            log.warning("driver statistics can't be written to %s: %s", self._path, cause)
