"""The options that say where a query starts, and where a batch read ends: from text to ``Bound``.

Three options say it, and Spark's connector has their order: a time for all partitions, then times
per partition, then offsets. kfetch also reads words for whole topics, ``"*"`` for the rest,
relative times, and the committed offsets of a consumer group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kfetch.errors import OptionError
from kfetch.model import TopicPartition
from kfetch.options.converters import LONG_MAX, second_of
from kfetch.options.option import Option, OptionReader, Treatment, by_name
from kfetch.options.subscription import json_object, malformed

EARLIEST = -2
"""ListOffsets' code of the log start (KIP-79). The JSON of startingOffsets uses it too."""
LATEST = -1
"""ListOffsets' code of the log end."""

_BATCH_START = "earliest"
"""The default of ``startingOffsets`` in batch reads."""
STARTING = by_name(
    Option(
        "startingOffsets",
        f"`latest`, `{_BATCH_START}` (the default of batch reads), `group`, or JSON",
        default="latest",
    ),
    Option(
        "startingTimestamp",
        "start at a time: milliseconds since 1970, or `-2h`; beats the next two",
    ),
    Option("startingOffsetsByTimestamp", "start at a time per partition, as JSON"),
    Option(
        "startingOffsetsByTimestampStrategy",
        "if no record is that young: `error`, or `latest`",
        second_of("error", "latest"),
        "error",
    ),
    Option(
        "kfetch.startingGroup",
        "group of `startingOffsets=group`; otherwise that of `kafka.group.id`",
    ),
)
ENDING = by_name(
    Option("endingOffsets", "`latest`, or JSON", default="latest", treatment=Treatment.BATCH),
    Option(
        "endingTimestamp",
        "end at a time: milliseconds since 1970, or `-2h`",
        treatment=Treatment.BATCH,
    ),
    Option(
        "endingOffsetsByTimestamp",
        "end at a time per partition, as JSON",
        treatment=Treatment.BATCH,
    ),
)

REST = "*"
"""The key for all partitions of a topic, or for all topics, that have no entry of their own."""

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_PARTITION = re.compile("[0-9]{1,10}")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_AGO = re.compile(r"-([0-9]{1,12}) ?(ms|s|m|min|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = (
    '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
)


class Ago(NamedTuple):
    """A time before the query's first start, such as ``-2h``."""

    ms: int


Place = int | Ago
"""An offset; or a time in milliseconds since 1970, or before the start; or EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where a new query starts, or where a batch read ends, as its options say.

    A partition has the place of its own entry, else that of its topic, else ``rest``. A partition
    without a place is an error.
    """

    option: str = "startingOffsets"
    """The option that decides, for error sentences."""
    partitions: Mapping[TopicPartition, Place] = field(default_factory=dict)
    topics: Mapping[str, Place] = field(default_factory=dict)
    """Places of all other partitions of a topic."""
    rest: Place | None = None
    """The place of every partition of other topics."""
    by_time: bool = False
    """Whether places are times. EARLIEST and LATEST mean the same in both."""
    no_match: int | None = None
    """The place if no record is that young: LATEST. None: an error."""
    group: str = ""
    """A consumer group whose committed offsets are the places; empty: none."""

    def place(self, tp: TopicPartition) -> Place | None:
        """Returns the place of a partition, or None if no entry includes it."""
        return self.partitions.get(tp, self.topics.get(tp.topic, self.rest))

    def at_time(self, now_ms: int) -> Bound:
        """Returns the bound with every relative time counted from ``now_ms`` (since 1970)."""

        def fixed(place: Place) -> int:
            return max(0, now_ms - place.ms) if isinstance(place, Ago) else place

        return replace(
            self,
            partitions={tp: fixed(place) for tp, place in self.partitions.items()},
            topics={topic: fixed(place) for topic, place in self.topics.items()},
            rest=None if self.rest is None else fixed(self.rest),
        )

    def always_gives(
        self, offsets: Mapping[TopicPartition, int] | None, *, alone: bool = True
    ) -> bool:
        """Returns whether the bound gave these offsets at any time before, too.

        The log end, a relative time and a group give others later. Expiry moves the log start and
        the first record of a time, unless they are at offset 0. ``offsets``: None if nobody knows
        them. ``alone``: whether other partitions do not matter.
        """
        places = {self.place(tp) for tp in offsets or ()}
        if offsets is None or not alone:
            places |= {*self.partitions.values(), *self.topics.values(), self.rest}
        if self.group or any(place == LATEST or isinstance(place, Ago) for place in places):
            return False
        if offsets is None:
            return not self.by_time and EARLIEST not in places
        return all(
            offset == (0 if self.by_time or (place := self.place(tp)) == EARLIEST else place)
            for tp, offset in offsets.items()
        )

    @property
    def summary(self) -> str:
        """The bound in a few words."""
        if self.group:
            return f"offsets of group {self.group}"
        if not self.partitions and not self.topics and self.rest in (EARLIEST, LATEST):
            return "earliest" if self.rest == EARLIEST else "latest"
        return "given times" if self.by_time else "given offsets"


def starting_bound(read: OptionReader, *, batch: bool) -> Bound:
    """Returns where a query starts: by default at the log ends, a batch read at the log starts.

    Raises OptionError for invalid texts, and for a batch read that would start at the log ends.
    """
    or_latest = read(STARTING["startingOffsetsByTimestampStrategy"])
    default = _BATCH_START if batch else STARTING["startingOffsets"].default
    bound = _bound(read, "starting", default, LATEST if or_latest else None)
    if batch and not bound.by_time:
        _refuse(bound, LATEST, "starting offset", "startingOffsets for {}")
    if not bound.group and "kfetch.startingGroup" in read:
        raise OptionError.about(
            "kfetch.startingGroup",
            "has no effect here",
            action="set startingOffsets=group, or remove it",
        )
    return bound


def ending_bound(read: OptionReader) -> Bound:
    """Returns where a batch read ends: by default at the log ends.

    Raises OptionError for invalid texts, and for an end at the log starts.
    """
    bound = _bound(read, "ending", ENDING["endingOffsets"].default, LATEST)
    if not bound.by_time:
        _refuse(bound, EARLIEST, "ending offset", "ending offset for {}")
    return bound


def check_order(starting: Bound, ending: Bound) -> None:
    """Raises OptionError if a batch read's bounds name other partitions, or are in wrong order.

    Only bounds of the same kind can be compared before a look-up.
    """
    if starting.by_time is not ending.by_time or not (starting.partitions and ending.partitions):
        return
    is_complete = not (_has_rest(starting) or _has_rest(ending))
    if is_complete and set(starting.partitions) != set(ending.partitions):
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {_names(starting)}, topic-partitions for end "
            f"offset: {_names(ending)}",
            option=ending.option,
        )
    kind = "timestamp" if starting.by_time else "offset"
    for tp, start in sorted(starting.partitions.items()):
        end = ending.place(tp)
        if isinstance(start, int) and isinstance(end, int) and start > end >= 0:
            raise OptionError(
                f"The specified start {kind} {start} is greater than the end {kind} {end} for "
                f"topic {tp.topic} partition {tp.partition}",
                option=starting.option,
            )


def _bound(read: OptionReader, kind: str, default: str, no_match: int | None) -> Bound:
    """Returns the bound of the options of one kind, starting or ending: the first that is set."""
    names = f"{kind}Timestamp", f"{kind}OffsetsByTimestamp", f"{kind}Offsets"
    option = next((name for name in names if name in read), None)
    if option is None:
        return Bound(option=names[-1], rest=_WORDS[default])
    text = read.text(option)
    if option == names[0]:
        place = _one_time(option, text)
        return Bound(option=option, rest=place, by_time=True, no_match=no_match)
    if option == names[1]:
        bound = _json_bound(option, text, _time, _time, _TIMES_EXAMPLE)
        return replace(bound, by_time=True, no_match=no_match)
    return _offsets_bound(read, option, text, group=kind == "starting")


def _offsets_bound(read: OptionReader, option: str, text: str, *, group: bool) -> Bound:
    """Returns the bound of a word, or of JSON with offsets. ``group``: whether that is a word."""
    word = text.lower()
    if word in _WORDS:
        return Bound(option=option, rest=_WORDS[word])
    if group and word == "group":
        return Bound(option=option, group=_group(read))
    if _AGO.fullmatch(text.strip()):
        kind = "starting" if group else "ending"
        raise OptionError.about(
            option,
            f"is {text}, which is a time and not an offset",
            action=f"set option {kind}Timestamp={text.strip()} instead",
        )
    words = "earliest, latest or group" if group else "earliest or latest"
    json_object(option, text, f"{_OFFSETS_EXAMPLE}, {words}")  # its error names the words too
    return _json_bound(option, text, _offset, _word_or_code, _OFFSETS_EXAMPLE)


def _group(read: OptionReader) -> str:
    group = read.text("kfetch.startingGroup") or read.text("kafka.group.id")
    if not group:
        raise OptionError.about(
            "startingOffsets",
            "is group, but no consumer group is named",
            action="set option kfetch.startingGroup or kafka.group.id",
        )
    return group


def _one_time(option: str, text: str) -> Place:
    time = _time(int(text) if _WHOLE.fullmatch(text) else text)
    if time is None or text.lower() in _WORDS:
        raise OptionError(
            f"option {option}: Expected a single long value, got {text}",
            action="write milliseconds since 1970, or a time before the start such as -2h",
            option=option,
        )
    return time


def _json_bound(
    option: str,
    text: str,
    read_one: Callable[[object], Place | None],
    read_many: Callable[[object], Place | None],
    example: str,
) -> Bound:
    """Returns the partitions, the topics and the rest that a JSON object names.

    ``read_one`` reads a partition's value, and ``read_many`` that of a topic or of ``"*"``. They
    return None for an invalid value.
    """
    problem = malformed(option, text, example)
    partitions: dict[TopicPartition, Place] = {}
    topics: dict[str, Place] = {}
    for topic, value in json_object(option, text, example).items():
        if topic == REST or not isinstance(value, dict):
            topics[topic] = _valid(read_many(value), problem)
            continue
        for key, of_key in value.items():
            if key == REST:
                topics[topic] = _valid(read_many(of_key), problem)
            elif _PARTITION.fullmatch(key) and TopicPartition(topic, int(key)) not in partitions:
                partitions[TopicPartition(topic, int(key))] = _valid(read_one(of_key), problem)
            else:
                raise problem
    rest = topics.pop(REST, None)
    return Bound(option=option, partitions=partitions, topics=topics, rest=rest)


def _valid(place: Place | None, problem: OptionError) -> Place:
    if place is None:
        raise problem
    return place


def _word_or_code(value: object) -> Place | None:
    """Returns the place of earliest, latest, -2 or -1. An offset fits one partition only."""
    place = _offset(value)
    return place if place in (EARLIEST, LATEST) else None


def _offset(value: object) -> Place | None:
    if isinstance(value, str):
        return _WORDS.get(value.lower())
    return value if type(value) is int and EARLIEST <= value <= LONG_MAX else None


def _time(value: object) -> Place | None:
    """Returns a time. Like ListOffsets (KIP-79), it takes -2 for earliest and -1 for latest."""
    if isinstance(value, str) and (match := _AGO.fullmatch(value)) is not None:
        return Ago(int(match[1]) * _UNITS_MS[match[2]])
    return _offset(value)


def _refuse(bound: Bound, code: int, everywhere: str, somewhere: str) -> None:
    """Raises OptionError if a bound has a place that a batch read can't have.

    ``everywhere`` and ``somewhere``: what the connector calls the place.
    """
    word, other = ("latest", "earliest") if code == LATEST else ("earliest", "latest")
    why = f"can't be {word} for batch queries on Kafka"
    action = f"set {bound.option} to {other}, or to offsets"
    if bound.rest == code and not (bound.partitions or bound.topics):
        raise OptionError(f"{everywhere} {why}", action=action, option=bound.option)
    for name, place in _named_places(bound):
        if place == code:
            what = f"{somewhere.format(name)} {why}"
            raise OptionError(what, action=action, option=bound.option)


def _named_places(bound: Bound) -> Iterator[tuple[str, Place | None]]:
    yield from ((str(tp), place) for tp, place in sorted(bound.partitions.items()))
    yield from sorted(bound.topics.items())
    yield REST, bound.rest


def _has_rest(bound: Bound) -> bool:
    return bool(bound.topics) or bound.rest is not None


def _names(bound: Bound) -> str:
    return ", ".join(map(str, sorted(bound.partitions)))
