"""Small pictures inside the text, as the numbers that SVG wants: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from kfetch_jobs.progress.history import Batch

__all__ = ["Bar", "bars", "phases", "sparkline"]

SPARK_WIDTH, SPARK_HEIGHT = 120, 24
BAR_WIDTH = 200
_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""Spark's names, in the order in which they come."""
OTHER = "other"


def sparkline(values: Sequence[float | None]) -> str:
    """The path of a line; what is not known is as it was before. Empty if nothing is known."""
    known: list[float] = []
    for value in values:
        known.append(value if value is not None else known[-1] if known else 0.0)
    if len(known) < 2:
        return ""
    top = max(*known, 1e-9)
    step = SPARK_WIDTH / (len(known) - 1)
    points = (
        f"{index * step:.1f} {(1 - value / top) * (SPARK_HEIGHT - 2) + 1:.1f}"
        for index, value in enumerate(known)
    )
    return "M" + "L".join(points)


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase of a micro-batch."""

    phase: str
    seconds: float
    x: float
    width: float


def phases() -> tuple[str, ...]:
    """The names that bars have."""
    return (*_PHASES, OTHER)


def bars(batch: Batch, longest_s: float) -> list[Bar]:
    """A micro-batch's phases side by side; ``longest_s`` is as wide as the picture."""
    scale = BAR_WIDTH / max(longest_s, batch.seconds, 1e-9)
    made: list[Bar] = []
    for phase, seconds in _by_phase(batch):
        x = made[-1].x + made[-1].width if made else 0.0
        width = min(seconds * scale, BAR_WIDTH - x)
        made.append(Bar(phase, seconds, round(x, 2), round(max(0.0, width), 2)))
    return made


def _by_phase(batch: Batch) -> Iterator[tuple[str, float]]:
    known = {name: batch.phases[name] for name in _PHASES if name in batch.phases}
    rest = batch.seconds - sum(known.values())
    for name, seconds in chain(known.items(), [(OTHER, rest)]):
        if seconds > 0.0:
            yield name, seconds
