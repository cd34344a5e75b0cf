"""Where a new query begins: ``startingOffsets`` as positions in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kfetch.errors import OptionError
from kfetch.model import ClusterView, TopicPartition
from kfetch.offsets import Position
from kfetch.options import EARLIEST, LATEST, StartingOffsets
from kfetch.watch.log import Log


def starting_positions(
    starting: StartingOffsets, source: Log, view: ClusterView
) -> dict[TopicPartition, Position]:
    """A position for every subscribed partition. Raises OptionError if some are not named."""
    partitions = source.partitions(view)
    wanted = starting.specific
    if wanted is None:
        wanted = dict.fromkeys(partitions, starting.default)
    elif set(wanted) != set(partitions):
        raise _mismatch(wanted, partitions)
    found = source.starts(tp for tp, offset in wanted.items() if offset == EARLIEST)
    ends = source.ends(tp for tp, offset in wanted.items() if offset != EARLIEST)
    # A numbered position has no epoch of its own: the leader's vouches for what lies below.
    for tp, end in ends.items():
        offset = end.offset if wanted[tp] == LATEST else wanted[tp]
        found[tp] = Position(offset, end.leader_epoch if offset <= end.offset else -1)
    return found


def _mismatch(
    wanted: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> OptionError:
    missing = sorted(set(partitions) - set(wanted))
    extra = sorted(set(wanted) - set(partitions))
    told = [f"it lacks {', '.join(map(str, missing))}"] if missing else []
    told += [f"{', '.join(map(str, extra))} are not subscribed or don't exist"] if extra else []
    return OptionError(
        "option startingOffsets must name every subscribed partition and no other: "
        f"{'; '.join(told)} (use -1 in the offset field for latest, -2 for earliest)",
        option="startingOffsets",
    )
