"""How much totals grow, over parts that restart at zero; pure.

The totals of a process end with it, and the next process starts at zero. Prometheus takes a falling
sum for a restart, and counts all of it again. So the metrics add up the increase of each part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_PARTS_MAX = 10_000
"""The most parts that it remembers. It forgets the part with the oldest update first."""


K = TypeVar("K", bound=Hashable)


class Growth(Generic[K]):
    """The last totals of each part, by name."""

    def __init__(self) -> None:
        self._last: OrderedDict[Hashable, Mapping[K, float]] = OrderedDict()

    def increase(self, part: Hashable, totals: Mapping[K, float]) -> dict[K, float]:
        """Note a part's totals, and return how much each has grown since the last time.

        Those that have not grown are left out. If one of them has fallen, the part has restarted at
        zero.
        """
        before = self._last.pop(part, {})
        if any(value < before.get(name, 0) for name, value in totals.items()):
            before = {}
        self._last[part] = dict(totals)
        while len(self._last) > _PARTS_MAX:
            self._last.popitem(last=False)
        grown = {name: value - before.get(name, 0) for name, value in totals.items()}
        return {name: more for name, more in grown.items() if more}
