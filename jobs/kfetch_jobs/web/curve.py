"""A job's lag and throughput over time, in bins: pure.

A window of time has 180 bins for any number of micro-batches, which limits memory and replies.
The rows of a micro-batch spread over the time since the one before, a minute at most. So a plot
shows rows per second, and no spike at each commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kfetch_jobs.progress.batch import Batch, HistoryEntry, RowsDeleted, RowsRestored

BATCHES_MAX = 25
"""The most micro-batches that a page lists."""
_BINS = 180
WINDOWS = {"15m": 5.0, "3h": 60.0, "24h": 480.0}
"""The length of a bin in seconds, by the name of the window."""
_SPREAD_S = 60.0
_AHEAD_S = 60.0
"""How far ahead a time may be if somebody has set the clock back. Later ones are damage."""


@dataclass(slots=True)
class _Bin:
    rows: float = 0.0
    batches: int = 0
    busy_s: float = 0.0
    lag: int | None = None
    """The lag after the last micro-batch that ended in this bin."""


class Curve:
    """The bins of one window."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self._bins: dict[int, _Bin] = {}
        self._last = 0
        self._last_end_s = 0.0
        """The end of the newest micro-batch, in seconds since 1970."""

    def add(self, batch: Batch, since_s: float) -> None:
        """Add a micro-batch, in any order. Its rows came since ``since_s`` (seconds since 1970)."""
        last = int(batch.finished // self.step_s)
        self._last_end_s = max(self._last_end_s, batch.finished)
        if last <= self._last - _BINS:
            return
        if last > self._last:
            self._last = last
            for old in [index for index in self._bins if index <= last - _BINS]:
                del self._bins[old]
        for index, share in self._shares(batch.finished, since_s, last):
            self._bin(index).rows += max(0, batch.rows) * share
        last_bin = self._bin(last)
        last_bin.batches += 1
        last_bin.busy_s += batch.seconds
        last_bin.lag = batch.lag

    def _bin(self, index: int) -> _Bin:
        return self._bins.setdefault(index, _Bin())

    def _shares(self, until_s: float, since_s: float, last: int) -> Iterator[tuple[int, float]]:
        """Yields the bins of a span of time, and the share of the span in each bin."""
        took_s = until_s - since_s
        first = max(int(since_s // self.step_s), self._last - _BINS + 1)
        for index in range(first, last + 1):
            begins_s = max(since_s, index * self.step_s)
            ends_s = min(until_s, (index + 1) * self.step_s)
            yield index, max(0.0, ends_s - begins_s) / took_s

    def points(self, now: float) -> dict[str, list[float | None]]:
        """Returns the columns of a plot, from the first known bin until ``now``.

        In a bin without a micro-batch the job has read no rows, and its lag is unknown.
        """
        columns: dict[str, list[float | None]] = {"t": [], "rows_s": [], "lag": [], "batch_s": []}
        newest = int(now // self.step_s)
        known = [index for index in self._bins if index > newest - _BINS]
        for index in range(min(known, default=newest + 1), newest + 1):
            ends_s = min(now, (index + 1) * self.step_s)
            if ends_s > index * self.step_s:
                one = self._bins.get(index, _Bin())
                columns["t"].append(round(ends_s, 1))
                columns["rows_s"].append(
                    self._rate(one, index, min(ends_s, self._known_until_s(now)))
                )
                columns["lag"].append(one.lag)
                columns["batch_s"].append(_mean(one))
        return columns

    def _known_until_s(self, now: float) -> float:
        """Returns the time until which rows are known. The next micro-batch may add later rows."""
        return self._last_end_s if now - self._last_end_s < _SPREAD_S else now

    def _rate(self, one: _Bin, index: int, ends_s: float) -> float | None:
        took_s = ends_s - index * self.step_s
        return round(one.rows / took_s, 1) if took_s >= self.step_s / 4 else None

    def rate(self, now: float, seconds: float) -> float:
        """Returns rows per second over the last known ``seconds``, as exact as the bins."""
        ends_s = self._known_until_s(now)
        newest = int(ends_s // self.step_s)
        bins = range(newest - int(seconds // self.step_s), newest + 1)
        took_s = ends_s - bins.start * self.step_s
        return sum(self._bins[index].rows for index in bins if index in self._bins) / took_s


def _mean(one: _Bin) -> float | None:
    return round(one.busy_s / one.batches, 3) if one.batches else None


@dataclass(slots=True)
class JobCurves:
    """The windows of one job, and its last micro-batches."""

    windows: dict[str, Curve] = field(
        default_factory=lambda: {name: Curve(step_s) for name, step_s in WINDOWS.items()}
    )
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_MAX))
    """The newest is last."""
    _before: dict[int, deque[Batch]] = field(default_factory=dict)
    """The last micro-batches before each replay that can be undone, by the replay's number."""

    def add(self, entry: HistoryEntry, now: float) -> None:
        """Add an entry of the job's history. A micro-batch with an impossible time is skipped.

        Dead letters of rows that a replay has deleted count as 0, until the replay is undone.
        """
        match entry:
            case RowsDeleted():
                self._before[entry.move] = self.batches.copy()
                for index, batch in enumerate(self.batches):
                    if batch.batch >= entry.undone_from:
                        self.batches[index] = replace(batch, dead_letters=0, dead_letter="")
            case RowsRestored():
                self.batches = self._before.pop(entry.restored, self.batches)
            case Batch():
                self._before.clear()  # the job has run since, so no replay can be undone
                if 0.0 < entry.finished < now + _AHEAD_S:
                    self._add_batch(entry)

    def _add_batch(self, batch: Batch) -> None:
        since_s = batch.finished - max(batch.seconds, _SPREAD_S)
        if self.batches and self.batches[-1].finished < batch.finished:
            since_s = max(since_s, self.batches[-1].finished)
        self.batches.append(batch)
        for curve in self.windows.values():
            curve.add(batch, since_s)
