"""The driver's statistics file: the data losses of a query, and the cost of its watch sessions.

With ``kfetch.statsDirectory`` the driver keeps a file ``driver/<query>-<pid>.json`` there, beside
the fetch statistics of the workers:

    {"losses": {"LogTruncated": 1}, "watch": {"full_requests": 1, "incremental_requests": 41, …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kfetch.fetch import stats_file
from kfetch.fetch.stats import FetchStats


class DriverStatistics:
    """Writes one query's file. Without a directory it writes nothing."""

    def __init__(self, directory: str, query: str) -> None:
        self._directory = Path(directory) / "driver" if directory else None
        self._query = query

    def write(self, watch: FetchStats, losses: Mapping[str, int]) -> None:
        """Replace the file. A full disk must not fail a query: it is logged."""
        if self._directory is not None:
            document = {"losses": dict(losses), "watch": asdict(watch)}
            stats_file.write(self._directory, self._query, document)
