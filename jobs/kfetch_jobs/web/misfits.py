"""What agents say about keys and values: those that do not fit, and fields that schemas lack."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kfetch.admin.values import FetchStats

_SHOWN = 10

Rows = tuple[tuple[str, str, int], ...]
"""Topic, reason or field, number of records: the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfits:
    """The sums over the agents that read for a job."""

    undecoded: int
    """Records whose key or value could not be decoded."""
    reasons: Rows
    sampled: int
    """Keys and values that were examined for unknown fields."""
    fields: Rows


def misfits(totals: Iterable[FetchStats]) -> Misfits:
    """Returns the sums of the totals of several agents."""
    parts = list(totals)
    return Misfits(
        undecoded=sum(one.undecoded for one in parts),
        reasons=_rows(one.undecoded_kinds for one in parts),
        sampled=sum(one.sampled for one in parts),
        fields=_rows(one.unknown_fields for one in parts),
    )


def _rows(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Rows:
    sums: Counter[tuple[str, str]] = Counter()
    for part in parts:
        for topic, names in part.items():
            for name, count in names.items():
                sums[topic, name] += count
    most = heapq.nlargest(_SHOWN, sums.items(), key=lambda item: item[1])
    return tuple((topic, name, count) for (topic, name), count in most)
