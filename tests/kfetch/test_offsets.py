"""Offsets as Spark keeps them: one text for one meaning, two formats in, nothing else."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import CheckpointError
from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.offsets import Documents, Offsets, Position, from_json

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
sessions = st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1))


@st.composite
def offsets(draw: st.DrawFn) -> Offsets:
    """Offsets with any positions, some topics with an id, perhaps with a first batch."""
    placed = draw(positions)
    named = sorted({tp.topic for tp in placed})
    ids = {topic: draw(st.uuids()) for topic in named if draw(st.booleans())}
    return Offsets(
        positions=placed,
        topic_ids={topic: found for topic, found in ids.items() if found != NO_TOPIC_ID},
        first_batch=draw(st.none() | positions),
        sessions=draw(st.dictionaries(st.integers(0, 2**31 - 1), sessions, max_size=3)),
    )


def text(found: Offsets) -> str:
    """What Spark compares and logs."""
    return json.dumps(found.to_json())


@given(offsets())
def test_round_trip(found: Offsets) -> None:
    """What was written is read back, ids, epochs and ``from`` included."""
    assert found == from_json(json.loads(text(found)))


@given(offsets(), st.randoms())
def test_text_is_canonical(found: Offsets, random: Any) -> None:
    """The JSON text does not depend on the order in which positions were found."""
    pairs = list(found.positions.items())
    random.shuffle(pairs)
    start = list((found.first_batch or {}).items())
    random.shuffle(start)
    again = Offsets(
        positions=dict(pairs),
        topic_ids=dict(reversed(found.topic_ids.items())),
        first_batch=None if found.first_batch is None else dict(start),
        sessions=dict(reversed(found.sessions.items())),
    )

    assert text(found) == text(again)


@given(offsets())
def test_reading_and_writing_keeps_the_text(found: Offsets) -> None:
    """A text that went through Spark's log comes out byte for byte."""
    assert text(found) == text(from_json(json.loads(text(found))))


def test_text_of_an_offset() -> None:
    """Topics by name, partitions by number, ids as hex, position and epoch as a pair."""
    found = Offsets(
        positions={U0: Position(1), T10: Position(2, 3), T1: Position(4, 5)},
        topic_ids={"t": ID},
        first_batch={T1: Position(0, -1)},
    )

    assert (
        '{"version": 1, "topics": {'
        '"t": {"id": "00000000000000000000000000000007", '
        '"partitions": {"1": [4, 5], "10": [2, 3]}}, '
        '"u": {"id": "00000000000000000000000000000000", "partitions": {"0": [1, -1]}}}, '
        '"from": {"t": {"1": [0, -1]}}}'
    ) == text(found)


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
    found = from_json(document)

    assert expected == found.positions
    assert {} == found.topic_ids
    assert found.first_batch is None


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
    """What is neither format is a CheckpointError that shows the text, never another error."""
    with pytest.raises(CheckpointError, match="neither kfetch's nor Spark's Kafka connector's"):
        from_json(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "topics", "from", "id", "partitions", "0", "t"]),
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
        found = from_json(document)
    except CheckpointError:
        return
    assert found == from_json(found.to_json())


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
    """Two offsets are the same when every partition stands at the same place, case included."""
    assert same is (from_json(one) == from_json(two))


def test_topic_without_id() -> None:
    """A topic of an old broker has the zero id, in the JSON and after reading it."""
    found = from_json(Offsets(positions={T0: Position(1)}).to_json())

    assert {} == found.topic_ids
    assert NO_TOPIC_ID == found.topic_id("t")


@given(offsets(), st.data())
def test_replaced_is_the_same_as_made_anew(found: Offsets, data: st.DataObject) -> None:
    """Positions that are replaced give the JSON that all positions together would give, and the
    document that was there before stays as it was."""
    before = text(found)
    known = sorted(found.positions)
    some = st.lists(st.sampled_from(known), unique=True) if known else st.just([])
    moved = {tp: data.draw(st.just(Position(7, 3))) for tp in data.draw(some)}
    moved |= data.draw(st.just({}) | positions)
    gone = [tp for tp in data.draw(some) if tp not in moved]
    after = found.replaced(moved, gone=gone, topic_ids=found.topic_ids, sessions={1: (5, 2)})
    left = {tp: p for tp, p in found.positions.items() if tp not in gone} | moved
    anew = Offsets(positions=left, topic_ids=found.topic_ids, sessions={1: (5, 2)})

    assert text(anew) == text(after)
    assert before == text(found)


def test_documents_know_what_they_have_seen() -> None:
    """The documents that went to Spark come back as the very offsets that they were."""
    documents = Documents()
    found = Offsets(positions={T0: Position(1, 0)}, topic_ids={"t": ID})
    sent = documents.write(found)
    plain = {"t": {"0": 1}}

    assert documents.read(json.loads(json.dumps(sent))) is found
    assert documents.read(plain) is documents.read(dict(plain)) is not found
    assert documents.read({"t": {"0": 2}}).positions == {T0: Position(2)}
