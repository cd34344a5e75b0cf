"""The records of a job: when they came, what is committed, and what its driver sees of them."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.backlog import Backlog
from kfetch_jobs.progress.reports import broker_report_path

_TP = TopicPartition("t", 0)
_VIEW = "source"


class Records:
    """The log of a job's topic. It outlives the job's runs."""

    def __init__(self, seed: str, mean_pause_s: float) -> None:
        self._draw = random.Random(f"records {seed}")
        self._rate = 1 / mean_pause_s
        self._times: list[float] = []
        """When each record came, by the steady clock."""
        self.committed = 0
        """How many the job has committed."""

    def count(self, now: float) -> int:
        """Returns how many have come so far."""
        while not self._times or self._times[-1] <= now:
            last = self._times[-1] if self._times else 0.0
            self._times.append(last + self._draw.expovariate(self._rate))
        return bisect_right(self._times, now)

    def waits_s(self, now: float) -> float:
        """Returns how long the oldest record has waited that is not committed; 0: none waits."""
        return now - self._times[self.committed] if self.committed < self.count(now) else 0.0


class Driver:
    """A run's driver: it plans micro-batches, and reports what waits, as kfetch's driver does."""

    def __init__(self, records: Records, directory: Path) -> None:
        self._records = records
        self._backlog = Backlog()
        self._report = broker_report_path(directory, _VIEW)
        self._seen: list[tuple[int, float]] = []
        """Log ends, and when the driver saw them."""
        self.planned = records.committed

    def plan(self, now: float, wall: float) -> None:
        """Plan a micro-batch of all that is there. The one before is committed."""
        start, self.planned = self.planned, self._records.count(now)
        ends = [_offsets(at) for at in (start, self.planned)]
        self._backlog.planned(ends[0], ends[1] if start != self.planned else ends[0], wall)

    def waited_s(self, wall: float) -> float:
        """Returns how long the oldest record behind the plan has waited at least."""
        since = [at for end, at in self._seen if end > self.planned]
        return max(0.0, wall - since[0]) if since else 0.0

    def report(self, now: float, wall: float) -> None:
        """Write what waits. On a full disk the older report stays."""
        end = self._records.count(now)
        self._seen = [one for one in self._seen if one[0] > self.planned]
        if end > self.planned:
            self._seen.append((end, wall))
        backlog = self._backlog.document([(_TP, Position(end))], wall)
        text = json.dumps({"at": wall, "unreachable": [], "backlog": backlog})
        with suppress(OSError):
            self._report.parent.mkdir(parents=True, exist_ok=True)
            draft = self._report.with_suffix(".new")
            draft.write_text(text)
            draft.replace(self._report)


def _offsets(at: int) -> Offsets:
    return Offsets(positions={_TP: Position(at, 0)}, topic_ids={})
