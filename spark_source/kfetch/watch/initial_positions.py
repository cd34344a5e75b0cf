"""The positions at which a new query starts: ``startingOffsets`` applied to the log."""

from __future__ import annotations

from collections.abc import Iterable

from kfetch.errors import OptionError
from kfetch.model import NO_EPOCH, ClusterView, TopicPartition
from kfetch.offsets import Position
from kfetch.options import EARLIEST, LATEST, StartingOffsets
from kfetch.watch.lookups import OffsetLookup

__all__ = ["initial_positions"]


def initial_positions(
    starting: StartingOffsets, lookup: OffsetLookup, view: ClusterView
) -> dict[TopicPartition, Position]:
    """Return a position for every subscribed partition of ``view``.

    Raises OptionError if ``starting`` names other partitions than the subscription.
    """
    partitions = lookup.subscribed_partitions(view)
    offsets = starting.specific
    if offsets is None:
        offsets = dict.fromkeys(partitions, starting.default)
    elif set(offsets) != set(partitions):
        raise _mismatched_partitions(offsets, partitions)
    positions = lookup.log_starts(tp for tp, offset in offsets.items() if offset == EARLIEST)
    log_ends = lookup.log_ends(tp for tp, offset in offsets.items() if offset != EARLIEST)
    # An offset from the option has no epoch. The leader's epoch vouches for all records below the
    # log end.
    for tp, end in log_ends.items():
        offset = end.offset if offsets[tp] == LATEST else offsets[tp]
        positions[tp] = Position(offset, end.leader_epoch if offset <= end.offset else NO_EPOCH)
    return positions


def _mismatched_partitions(
    offsets: Iterable[TopicPartition], partitions: Iterable[TopicPartition]
) -> OptionError:
    missing = sorted(set(partitions) - set(offsets))
    extra = sorted(set(offsets) - set(partitions))
    problems = [f"it lacks {_names(missing)}"] if missing else []
    problems += [f"{_names(extra)} are not subscribed or don't exist"] if extra else []
    return OptionError(
        "option startingOffsets must name every subscribed partition and no other: "
        f"{'; '.join(problems)} (use -1 in the offset field for latest, -2 for earliest)",
        option="startingOffsets",
    )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
