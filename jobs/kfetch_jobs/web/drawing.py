"""Small pictures inside the text, as numbers for SVG: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from kfetch_jobs.progress.batch import Batch

SPARK_WIDTH, SPARK_HEIGHT = 120, 24
BAR_WIDTH = 200
_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""Spark's phases, in their order."""
OTHER = "other"


def sparkline(values: Sequence[float | None]) -> str:
    """Returns the SVG path of a line. An unknown value repeats the one before it.

    The path is empty if fewer than two values are known.
    """
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
    """Returns the names of all bars."""
    return (*_PHASES, OTHER)


def bars(batch: Batch, longest_s: float) -> list[Bar]:
    """Returns a micro-batch's phases side by side. ``longest_s`` seconds fill the picture."""
    scale = BAR_WIDTH / max(longest_s, batch.seconds, 1e-9)
    drawn: list[Bar] = []
    for phase, seconds in _by_phase(batch):
        x = drawn[-1].x + drawn[-1].width if drawn else 0.0
        width = min(seconds * scale, BAR_WIDTH - x)
        drawn.append(Bar(phase, seconds, round(x, 2), round(max(0.0, width), 2)))
    return drawn


def _by_phase(batch: Batch) -> Iterator[tuple[str, float]]:
    known = {name: batch.phases[name] for name in _PHASES if name in batch.phases}
    rest = batch.seconds - sum(known.values())
    for name, seconds in chain(known.items(), [(OTHER, rest)]):
        if seconds > 0.0:
            yield name, seconds
