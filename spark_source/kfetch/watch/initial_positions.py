"""The positions at which a new query starts, or a batch read ends: a ``Bound`` applied to the log.

Offsets and times come from the options. The leaders say which offsets they mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kfetch.errors import OptionError
from kfetch.model import NO_EPOCH, ClusterView, TopicPartition
from kfetch.offsets import Position, Positions
from kfetch.options import EARLIEST, LATEST, Bound
from kfetch.watch.lookups import OffsetLookup

LogEnds = Callable[[Iterable[TopicPartition]], Positions]
_NAMES_MAX = 10


def bound_positions(
    bound: Bound, lookup: OffsetLookup, view: ClusterView, log_ends: LogEnds | None = None
) -> Positions:
    """Returns a position for every subscribed partition of ``view``.

    Relative times count from now. To look up two bounds with the same clock, call
    ``Bound.at_time`` first. ``log_ends`` returns known log ends; by default they are looked up.
    Raises OptionError if the bound has no place for a partition, or names one that is not
    subscribed, or if no record is as young as a time.
    """
    log_ends = log_ends or lookup.log_ends
    if bound.group:
        return _committed_positions(bound.group, lookup, view)
    places = _places(bound.at_time(time.time_ns() // 1_000_000), lookup, view)
    if bound.by_time:
        return _positions_at_times(bound, places, lookup, log_ends)
    return _positions_at_offsets(places, lookup, log_ends)


def _committed_positions(group: str, lookup: OffsetLookup, view: ClusterView) -> Positions:
    """Returns the committed positions of a consumer group, and the log start of other partitions.

    Raises OptionError for a group without any commit here: its name may be wrong.
    """
    partitions = lookup.subscribed_partitions(view)
    positions = lookup.committed_offsets(group, partitions)
    if partitions and not positions:
        raise OptionError(
            f"consumer group {group} has no committed offset for any subscribed partition",
            action="check its name, or set startingOffsets to earliest or latest",
            option="startingOffsets",
            group=group,
        )
    return {**lookup.log_starts(tp for tp in partitions if tp not in positions), **positions}


def _places(bound: Bound, lookup: OffsetLookup, view: ClusterView) -> dict[TopicPartition, int]:
    partitions = lookup.subscribed_partitions(view)
    places = {tp: place for tp in partitions if isinstance(place := bound.place(tp), int)}
    extra = [str(tp) for tp in sorted(bound.partitions) if tp not in places]
    topics = {tp.topic for tp in partitions}
    extra += sorted(topic for topic in bound.topics if topic not in topics)
    if len(places) < len(partitions) or extra:
        raise _mismatched(bound, [str(tp) for tp in partitions if tp not in places], extra)
    return places


def _positions_at_offsets(
    places: Mapping[TopicPartition, int], lookup: OffsetLookup, log_ends: LogEnds
) -> Positions:
    positions = lookup.log_starts(tp for tp, place in places.items() if place == EARLIEST)
    ends = log_ends(tp for tp, place in places.items() if place != EARLIEST)
    # An offset from the option has no epoch. The leader's epoch vouches for all records below the
    # log end.
    for tp, end in ends.items():
        offset = end.offset if places[tp] == LATEST else places[tp]
        positions[tp] = Position(offset, end.leader_epoch if offset <= end.offset else NO_EPOCH)
    return positions


def _positions_at_times(
    bound: Bound, places: Mapping[TopicPartition, int], lookup: OffsetLookup, log_ends: LogEnds
) -> Positions:
    times = {tp: place for tp, place in places.items() if place >= 0}
    codes = {tp: place for tp, place in places.items() if place < 0}
    # Log ends come first: a record that arrives between the two questions must not be skipped.
    no_match = dict.fromkeys(times, bound.no_match) if bound.no_match is not None else {}
    otherwise = _positions_at_offsets({**no_match, **codes}, lookup, log_ends)
    positions = {**otherwise, **lookup.offsets_at_times(times)}
    for tp in places:
        if tp not in positions:
            raise OptionError(
                f"No offset matched from request of topic-partition {tp} and timestamp "
                f"{times[tp]}: option {bound.option}",
                action="choose an earlier time, or set startingOffsetsByTimestampStrategy=latest",
                option=bound.option,
            )
    return positions


def _mismatched(bound: Bound, missing: Sequence[str], extra: Sequence[str]) -> OptionError:
    kind = "end" if bound.option.startswith("ending") else "start"
    problems = [f"option {bound.option} lacks {_names(missing)}"] if missing else []
    if extra:
        problems.append(f"{_names(extra)} of option {bound.option} are not subscribed")
    return OptionError(
        f"Partitions specified for Kafka {'timestamp based ' if bound.by_time else ''}{kind} "
        f"offsets don't match what are assigned: {'; '.join(problems)}",
        action='Name each partition, or add "*" for the rest. Use -1 for latest, -2 for earliest',
        option=bound.option,
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
