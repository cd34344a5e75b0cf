"""Sums that only grow, over parts whose totals restart at zero; pure.

The totals of a process end with it, and the next process starts at zero. Prometheus takes a falling
sum for a restart, and counts all of it again. This module therefore adds up the increase of each
part.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_PARTS_MAX = 10_000
"""The most parts that it remembers. It forgets the part with the oldest update first."""


K = TypeVar("K", bound=Hashable)


class GrowingSums(Generic[K]):
    """The increase of all parts, by group and by the name of a total."""

    def __init__(self) -> None:
        self._last: OrderedDict[Hashable, Mapping[K, float]] = OrderedDict()
        self._sums: dict[str, Counter[K]] = {}

    def update(self, group: str, part: Hashable, totals: Mapping[K, float]) -> None:
        """Note a part's totals. If one of them has fallen, the part has restarted at zero."""
        before = self._last.pop((group, part), {})
        if any(value < before.get(name, 0) for name, value in totals.items()):
            before = {}
        sums = self._sums.setdefault(group, Counter())
        for name, value in totals.items():
            sums[name] += value - before.get(name, 0)  # type: ignore[assignment] # floats do
        self._last[group, part] = dict(totals)
        while len(self._last) > _PARTS_MAX:
            self._last.popitem(last=False)

    def reset(self) -> None:
        """Set all sums to zero."""
        for sums in self._sums.values():
            sums.clear()

    def sums(self, group: str) -> Mapping[K, float]:
        """Returns the increase of the group's parts by name; 0 for unknown names."""
        return self._sums.get(group, Counter())
