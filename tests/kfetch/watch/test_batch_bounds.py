"""Starts, ends and tasks of batch reads: the figures of the connector's KafkaRelationSuite."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kfetch.errors import OptionError
from tests.kfetch.watch.test_batch_planning import plan, ranges
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import T0 as FIRST_MS

SECOND_MS, THIRD_MS = FIRST_MS + 10, FIRST_MS + 20
NEVER_MS = 2**63 - 1
Options = dict[str, object]


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t: three partitions with 30 records each, a millisecond apart."""
    with LittleKafka() as running:
        for log in running.create("t", 3):
            log.append(*[b"%d" % number for number in range(30)])
        yield running


def each(*places: int) -> dict[str, int]:
    """The place of each partition; one place is that of all three."""
    chosen = places if len(places) == 3 else places * 3
    return {str(partition): place for partition, place in enumerate(chosen)}


def texts(options: Options) -> dict[str, str]:
    """Options as Spark passes them: a dict becomes JSON for the topic."""
    return {
        name: json.dumps({"t": value}) if isinstance(value, dict) else str(value)
        for name, value in options.items()
    }


BOUNDS: list[tuple[Options, list[tuple[int, int]]]] = [
    ({}, [(0, 30)] * 3),
    ({"startingOffsets": "earliest", "endingOffsets": "latest"}, [(0, 30)] * 3),
    ({"startingOffsets": each(-2), "endingOffsets": each(-1)}, [(0, 30)] * 3),
    (
        {"startingOffsets": each(3, 4, 5), "endingOffsets": each(8, 9, -1)},
        [(3, 8), (4, 9), (5, 30)],
    ),
    (
        {
            "startingOffsetsByTimestamp": each(SECOND_MS),
            "endingOffsetsByTimestamp": each(THIRD_MS),
        },
        [(10, 20)] * 3,
    ),
    (
        {"startingOffsetsByTimestamp": each(SECOND_MS), "endingOffsets": each(12, 25, -1)},
        [(10, 12), (10, 25), (10, 30)],
    ),
    (
        {"startingOffsets": each(0, 5, -2), "endingOffsetsByTimestamp": each(THIRD_MS)},
        [(0, 20), (5, 20), (0, 20)],
    ),
    ({"startingOffsetsByTimestamp": each(SECOND_MS)}, [(10, 30)] * 3),
    ({"endingOffsetsByTimestamp": each(THIRD_MS)}, [(0, 20)] * 3),
    ({"startingTimestamp": SECOND_MS, "endingTimestamp": THIRD_MS}, [(10, 20)] * 3),
    (
        {"endingOffsetsByTimestamp": each(SECOND_MS, SECOND_MS, NEVER_MS)},
        [(0, 10), (0, 10), (0, 30)],
    ),
    (
        {
            "startingTimestamp": THIRD_MS,
            "startingOffsetsByTimestamp": each(SECOND_MS),
            "startingOffsets": "earliest",
        },
        [(20, 30)] * 3,
    ),
    (
        {"startingOffsetsByTimestamp": each(SECOND_MS), "startingOffsets": "earliest"},
        [(10, 30)] * 3,
    ),
]


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "explicit earliest to latest offsets",
    "default starting and ending offsets",
    "explicit offsets",
    "timestamp provided *",
    "global timestamp provided for starting and ending",
    "preferences on offset related options",
    "no matched offset for timestamp - endingOffsets",
)
@pytest.mark.parametrize(("options", "expected"), BOUNDS)
def test_offsets_and_times(
    kafka: LittleKafka, options: Options, expected: list[tuple[int, int]]
) -> None:
    """Starts and ends may be offsets or times, in any combination. A time for all partitions beats
    times per partition, and these beat offsets."""
    found = ranges(plan(kafka, **texts(options)))

    assert expected == [found[tp] for tp in sorted(found)]


REFUSED: list[tuple[Options, str]] = [
    (
        {"startingOffsetsByTimestamp": each(SECOND_MS, SECOND_MS, NEVER_MS)},
        "No offset matched from request of topic-partition t-2",
    ),
    (
        {"startingOffsets": each(1), "endingOffsets": {"0": 0, "1": 0}},
        "specified start offset and end offset should have the same topic-partitions",
    ),
    (
        {"startingOffsets": each(1), "endingOffsets": each(0)},
        "specified start offset 1 is greater than the end offset 0 for topic t partition 0",
    ),
    (
        {"startingOffsetsByTimestamp": each(THIRD_MS), "endingOffsets": each(4)},
        "start offset 20 is greater than the resolved end offset 4 for topic t partition 0",
    ),
    (
        {"startingOffsets": each(31), "endingOffsets": "latest"},
        "start offset 31 is greater than the resolved end offset 30 for topic t partition 0",
    ),
]


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "no matched offset for timestamp - startingOffsets",
    "topic-partition for start offset and end offset must match",
    "unresolved start offset greater than end offset",
    "resolved start offset greater than end offset (without latest)",
)
@pytest.mark.connector_case(
    "KafkaRelationSuiteV1",
    "resolved start offset greater than end offset (with latest)",
)
@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_bounds_that_do_not_fit(kafka: LittleKafka, options: Options, sentence: str) -> None:
    """A start behind its end, ends for other partitions, and a time without a record are errors
    in the connector's words."""
    with pytest.raises(OptionError, match=sentence):
        plan(kafka, **texts(options))


TASKS: list[tuple[int, Options, dict[int, list[tuple[int, int]]]]] = [
    (
        3,
        {"assign": '{"t":[0]}', "startingOffsets": {"0": 1}, "endingOffsets": {"0": 4}},
        {0: [(1, 2), (2, 3), (3, 4)]},
    ),
    (3, {"assign": '{"t":[0]}', "endingOffsets": {"0": 4}}, {0: [(0, 1), (1, 2), (2, 4)]}),
    (
        4,
        {"startingOffsets": each(-2), "endingOffsets": each(-1, 3, 0)},
        {0: [(0, 10), (10, 20), (20, 30)], 1: [(0, 3)]},
    ),
]


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - *",
)
@pytest.mark.parametrize(("least", "options", "expected"), TASKS)
def test_ranges_of_tasks(
    kafka: LittleKafka, least: int, options: Options, expected: dict[int, list[tuple[int, int]]]
) -> None:
    """minPartitions cuts the ranges of a batch read where the connector cuts them."""
    given = {"minPartitions": least, "kfetch.rowsPerSplit": 0, **options}
    splits = plan(kafka, **texts(given))
    found: dict[int, list[tuple[int, int]]] = {}
    for item in sorted((split.ranges[0] for split in splits), key=lambda one: one.start):
        found.setdefault(item.tp.partition, []).append((item.start, item.end))

    assert expected == found
    assert all(1 == len(split.ranges) for split in splits)
