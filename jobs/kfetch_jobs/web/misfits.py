"""What agents say about keys and values: those that do not fit, and fields that schemas lack."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from kfetch.admin.values import FetchStats

_SHOWN = 10

Rows = list[tuple[str, str, int]]
"""Topic, reason or field, number of records: the most frequent first."""


@dataclass(frozen=True, slots=True)
class Misfits:
    """The most frequent ones in the totals of the agents that read for a job."""

    totals: FetchStats

    @property
    def reasons(self) -> Rows:
        """Why keys and values could not be decoded."""
        return _most(self.totals.undecoded_kinds)

    @property
    def fields(self) -> Rows:
        """Fields that schemas lack."""
        return _most(self.totals.unknown_fields)


def _most(counts: Mapping[str, Mapping[str, int]]) -> Rows:
    rows = [(topic, *item) for topic, names in counts.items() for item in names.items()]
    return heapq.nlargest(_SHOWN, rows, key=lambda row: row[2])
