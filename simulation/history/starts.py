"""Where a new query must start: between what the logs say before its look-up and after it.

``look`` notes the logs of a moment. A start that is too late skips records, and one that is too
early reads records that nobody asked for. A partition that changes its leader meanwhile may answer
by its older log, so it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import EARLIEST, LATEST, Bound
from simulation.cluster.cluster import Cluster, Place
from simulation.cluster.log import Batch


class Seen(NamedTuple):
    """A partition at one moment."""

    topic_id: object
    epoch: int
    start: int
    stable: int
    """The last stable offset."""
    end: int
    """The high watermark."""
    batches: tuple[Batch, ...]
    committed: int | None
    """The position of the starting group."""


class Look(NamedTuple):
    """All partitions at one moment."""

    wall_ms: int
    partitions: Mapping[Place, Seen]


def look(cluster: Cluster, wall_s: float, group: str) -> Look:
    """Returns the partitions whose leaders are certain now. ``wall_s``: seconds since 1970."""
    if any(broker.lags for broker in cluster.brokers.values()):
        return Look(int(wall_s * 1000), {})
    commits = cluster.commits.get(group, {})
    seen = {}
    for place, hosted in cluster.leaders():
        log = hosted.log
        committed = commits.get(place, (None, -1))[0]
        batches = tuple(log.batches)
        seen[place] = Seen(
            hosted.topic_id,
            hosted.epoch,
            log.start,
            log.last_stable,
            log.high_watermark,
            batches,
            committed,
        )
    return Look(int(wall_s * 1000), seen)


def wrong_starts(bound: Bound, before: Look, after: Look, found: Offsets) -> list[str]:
    """Returns a line for each partition where ``found`` is not what the bound says."""
    problems = []
    for place, first in before.partitions.items():
        last = after.partitions.get(place)
        position = found.positions.get(TopicPartition(*place))
        if last is None or position is None or last[:2] != first[:2]:
            continue
        earliest, latest = _limits(bound, place, first, last, before.wall_ms, after.wall_ms)
        if not earliest <= position.offset <= latest:
            problems.append(
                f"{place[0]}-{place[1]} starts at {position.offset}, and not between {earliest} "
                f"and {latest} ({bound.summary})"
            )
    return problems


def _limits(
    bound: Bound, place: Place, first: Seen, last: Seen, began_ms: int, ended_ms: int
) -> tuple[int, int]:
    """Returns the first and the last offset at which the partition may start."""
    if bound.group:
        at = first.committed
        return (first.start, last.start) if at is None else (at, at)
    began, ended = (
        bound.at_time(ms).place(TopicPartition(*place)) for ms in sorted((began_ms, ended_ms))
    )
    if not isinstance(began, int) or not isinstance(ended, int):
        return 0, last.end
    if began == EARLIEST:
        return first.start, last.start
    if began == LATEST:
        return first.stable, last.end
    if not bound.by_time:
        return began, began
    return min(_since(first, began), first.stable), max(_since(last, ended), last.start)


def _since(seen: Seen, time_ms: int) -> int:
    """Returns the first offset of a time or later, or the log end."""
    found = (max(b.base, seen.start) for b in seen.batches if b.time_ms >= time_ms)
    return min(next(found, seen.end), seen.end)
