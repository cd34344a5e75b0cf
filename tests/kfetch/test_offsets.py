"""Offsets as Spark keeps them: one JSON text for each value, and two formats to read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import CheckpointError
from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.offsets import (
    DocumentCache,
    LeftPosition,
    Offsets,
    Position,
    from_json,
)

ID = UUID(int=7)
T0, T1, T10, U0 = (
    TopicPartition("t", 0),
    TopicPartition("t", 1),
    TopicPartition("t", 10),
    TopicPartition("u", 0),
)

topics = st.text(st.sampled_from("abcT._-"), min_size=1, max_size=4) | st.sampled_from(
    ["version", "topics", "from"]
)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
positions = st.dictionaries(
    partitions, st.builds(Position, st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))
)


@st.composite
def offsets(draw: st.DrawFn) -> Offsets:
    """Offsets with any positions, some topics with an id, perhaps with a first batch, or with
    partitions that left."""
    placed = draw(positions)
    away = draw(positions)
    away_ids = {topic: draw(st.uuids()) for topic in sorted({tp.topic for tp in away})}
    named = sorted({tp.topic for tp in placed})
    ids = {topic: draw(st.uuids()) for topic in named if draw(st.booleans())}
    return Offsets(
        positions=placed,
        topic_ids={topic: topic_id for topic, topic_id in ids.items() if topic_id != NO_TOPIC_ID},
        first_batch=draw(st.none() | positions),
        left={
            tp: LeftPosition(away_ids[tp.topic], position, draw(st.integers(0, 2**33)))
            for tp, position in away.items()
        },
    )


def text(known_offsets: Offsets) -> str:
    """Returns the text that Spark compares and logs."""
    return json.dumps(known_offsets.to_json())


@pytest.mark.connector_case(
    "KafkaSourceOffsetSuite",
    "basic serialization - deserialization",
)
@given(offsets())
def test_round_trip(known_offsets: Offsets) -> None:
    """Written offsets are read back, with ids, epochs and ``from``."""
    assert known_offsets == from_json(json.loads(text(known_offsets)))


@given(offsets(), st.randoms())
def test_text_is_canonical(known_offsets: Offsets, random: Any) -> None:
    """The JSON text does not depend on the order of positions."""
    pairs = list(known_offsets.positions.items())
    random.shuffle(pairs)
    start = list((known_offsets.first_batch or {}).items())
    random.shuffle(start)
    again = Offsets(
        positions=dict(pairs),
        topic_ids=dict(reversed(known_offsets.topic_ids.items())),
        first_batch=None if known_offsets.first_batch is None else dict(start),
        left=dict(reversed(known_offsets.left.items())),
    )

    assert text(known_offsets) == text(again)


@pytest.mark.connector_case(
    "KafkaSourceOffsetSuite",
    "OffsetSeqLog serialization - deserialization",
)
@given(offsets())
def test_reading_and_writing_keeps_the_text(known_offsets: Offsets) -> None:
    """A text that went through Spark's log comes out byte for byte."""
    assert text(known_offsets) == text(from_json(json.loads(text(known_offsets))))


def test_text_of_an_offset() -> None:
    """Topics by name, partitions by number, ids as hex, position and epoch as a pair."""
    known_offsets = Offsets(
        positions={U0: Position(1), T10: Position(2, 3), T1: Position(4, 5)},
        topic_ids={"t": ID},
        first_batch={T1: Position(0, -1)},
        left={TopicPartition("v", 3): LeftPosition(ID, Position(8, 2), 1_795_335_036)},
    )

    assert (
        '{"version": 1, "topics": {'
        '"t": {"id": "00000000000000000000000000000007", '
        '"partitions": {"1": [4, 5], "10": [2, 3]}}, '
        '"u": {"id": "00000000000000000000000000000000", "partitions": {"0": [1, -1]}}}, '
        '"from": {"t": {"1": [0, -1]}}, '
        '"left": {"v": {"id": "00000000000000000000000000000007", '
        '"partitions": {"3": [8, 2, 1795335036]}}}}'
    ) == text(known_offsets)


@pytest.mark.connector_case(
    "KafkaSourceOffsetSuite",
    "read Spark 2.1.0 offset format",
)
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"t": {"0": 23}}, {T0: Position(23)}),
        ({"t": {"1": 45, "0": 23}, "u": {"0": 1}}, {T0: (23, -1), T1: (45, -1), U0: (1, -1)}),
        ({"version": {"0": 2}}, {TopicPartition("version", 0): (2, -1)}),
        ({"T": {"0": 1}, "t": {"0": 2}}, {TopicPartition("T", 0): (1, -1), T0: (2, -1)}),
        ({}, {}),
    ],
)
def test_connector_format(document: dict[str, Any], expected: dict[TopicPartition, Any]) -> None:
    """The plain form of Spark's connector is read, without epochs or ids."""
    known_offsets = from_json(document)

    assert expected == known_offsets.positions
    assert {} == known_offsets.topic_ids
    assert known_offsets.first_batch is None


@pytest.mark.parametrize("version", [2, 99, 0, -1])
def test_other_version(version: int) -> None:
    """An offset of another version is refused with both versions named."""
    with pytest.raises(CheckpointError) as caught:
        from_json({"version": version, "topics": {}})

    assert (
        f"the checkpoint's offset has version {version}, but this kfetch knows version 1: run the "
        "kfetch that wrote it, or a newer one"
    ) == caught.value.message
    assert version == caught.value.version


GOOD = {"version": 1, "topics": {"t": {"id": ID.hex, "partitions": {"0": [5, 1]}}}}


def _with(pair: Any) -> dict[str, Any]:
    return {"version": 1, "topics": {"t": {"id": ID.hex, "partitions": {"0": pair}}}}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        7,
        {"version": 1},
        {"version": 1, "topics": None},
        {"version": 1, "topics": []},
        {"version": 1, "topics": {"t": None}},
        {"version": 1, "topics": {"t": {}}},
        {"version": 1, "topics": {"t": {"id": "zz", "partitions": {}}}},
        {"version": 1, "topics": {"t": {"id": 5, "partitions": {}}}},
        {"version": 1, "topics": {"t": {"id": ID.hex}}},
        {"version": 1, "topics": {"t": {"id": ID.hex, "partitions": {"x": [1, 1]}}}},
        {"version": 1, "topics": {"t": {"id": ID.hex, "partitions": {"-1": [1, 1]}}}},
        _with([]),
        _with([1, 2, 3]),
        _with(["1", 2]),
        _with([1.5, 2]),
        _with([True, 2]),
        _with([-5, 2]),
        _with([5, -2]),
        _with(5),
        _with("12"),
        _with(None),
        {**GOOD, "from": 5},
        {**GOOD, "from": {"t": 5}},
        {**GOOD, "from": {"t": {"0": [-1, 0]}}},
        {"version": True, "topics": {}},
        {"version": 1.0, "topics": {}},
        {"version": "1", "topics": {}},
        {"t": 5},
        {"t": [5]},
        {"t": {"0": "5"}},
        {"t": {"0": None}},
        {"t": {"0": -1}},
        {"t": {"zero": 5}},
        {"t": {"-1": 5}},
        {"t": {"9" * 5000: 5}},
    ],
    ids=lambda document: str(document)[:60],
)
def test_garbage(document: Any) -> None:
    """A document of neither format is a CheckpointError that shows the text."""
    with pytest.raises(CheckpointError, match="neither kfetch's nor Spark's Kafka connector's"):
        from_json(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "topics", "from", "left", "id", "partitions", "0", "t"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json(document: Any) -> None:
    """Any JSON at all is an offset or a CheckpointError."""
    try:
        known_offsets = from_json(document)
    except CheckpointError:
        return
    assert known_offsets == from_json(known_offsets.to_json())


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ({"t": {"0": 1}}, {"t": {"0": 1}}, True),
        ({"t": {"0": 1}}, {"t": {"0": 2}}, False),
        ({"t": {"0": 1}}, {"T": {"0": 1}}, False),
        ({"t": {"0": 1}}, {"t": {"0": 1, "1": 0}}, False),
        ({"t": {"0": 1}, "u": {"0": 2}}, {"u": {"0": 2}, "t": {"0": 1}}, True),
    ],
)
def test_comparing(one: dict[str, Any], two: dict[str, Any], same: bool) -> None:
    """Two offsets are equal if all positions are equal; topic names are case-sensitive."""
    assert same is (from_json(one) == from_json(two))


def test_topic_without_id() -> None:
    """A topic of an old broker has the zero id, in the JSON and after reading it."""
    known_offsets = from_json(Offsets(positions={T0: Position(1)}).to_json())

    assert {} == known_offsets.topic_ids
    assert NO_TOPIC_ID == known_offsets.topic_id("t")


@given(offsets(), st.data())
def test_moved_offsets_equal_new_ones(known_offsets: Offsets, data: st.DataObject) -> None:
    """Moved offsets have the JSON of newly built offsets. The earlier document does not change."""
    before = text(known_offsets)
    known = sorted(known_offsets.positions)
    some = st.lists(st.sampled_from(known), unique=True) if known else st.just([])
    moved = {tp: data.draw(st.just(Position(7, 3))) for tp in data.draw(some)}
    moved |= data.draw(st.just({}) | positions)
    gone = [tp for tp in data.draw(some) if tp not in moved]
    after = known_offsets.with_moved(moved, gone=gone, topic_ids=known_offsets.topic_ids)
    expected = {tp: p for tp, p in known_offsets.positions.items() if tp not in gone} | moved
    anew = Offsets(positions=expected, topic_ids=known_offsets.topic_ids, left=known_offsets.left)

    assert text(anew) == text(after)
    assert before == text(known_offsets)


def test_cache_know_what_they_have_seen() -> None:
    """A document that comes back from Spark gives the same offsets object."""
    cache = DocumentCache()
    known_offsets = Offsets(positions={T0: Position(1, 0)}, topic_ids={"t": ID})
    sent = cache.write(known_offsets)
    plain = {"t": {"0": 1}}

    assert cache.read(json.loads(json.dumps(sent))) is known_offsets
    assert cache.read(plain) is cache.read(dict(plain)) is not known_offsets
    assert cache.read({"t": {"0": 2}}).positions == {T0: Position(2)}


@given(offsets())
def test_an_earlier_release_reads_the_positions(known_offsets: Offsets) -> None:
    """Without ``left``, as earlier releases read it, an offset has the same positions and ids."""
    document = {k: v for k, v in known_offsets.to_json().items() if k != "left"}

    assert replace(known_offsets, left={}) == from_json(document)
