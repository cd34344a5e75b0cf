"""Sums that only grow, over parts that come, go and begin anew; pure.

A process's totals end with it, and the next one starts at zero. Prometheus takes a sum that falls
for a restart of the whole, and counts all of it again; so what each part has added is added up
here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping

__all__ = ["GrowingSums"]

_PARTS_MAX = 10_000
"""Remembered; of more, the one that was seen longest ago is forgotten."""


class GrowingSums:
    """What the parts of each group have added."""

    def __init__(self) -> None:
        self._last: OrderedDict[Hashable, Mapping[str, float]] = OrderedDict()
        self._sums: dict[str, Counter[str]] = {}

    def update(self, group: str, part: Hashable, totals: Mapping[str, float]) -> None:
        """A part's totals now. If one of them has fallen, the part has begun anew."""
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
        """All sums are zero from here on."""
        for sums in self._sums.values():
            sums.clear()

    def sums(self, group: str) -> Mapping[str, float]:
        """What the group's parts have added; 0 for what nobody has told."""
        return self._sums.get(group, Counter())
