"""Round trips: whatever records there are, every decoder gives them back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kfetch.model import TopicPartition
from kfetch.records.batch import extent
from kfetch.records.format import LOG_APPEND_TIME
from tests.examples import examples
from tests.kfetch.decoders import Decode, decode_with
from tests.kfetch.records.batch_builder import CODECS, batch, make_slice, record

EDGE = -(2**63) // 1000
SOME = st.one_of(st.binary(max_size=40), st.integers(100, 700).map(lambda n: b"x" * n))
MAYBE = st.one_of(st.none(), SOME)
HEADERS = st.lists(st.tuples(st.text(max_size=10), MAYBE), max_size=4)
TIMES = st.one_of(st.integers(-1000, 1000), st.integers(-(2**62 // 1000), 2**62 // 1000))
RECORD = st.tuples(st.integers(1, 200), MAYBE, MAYBE, HEADERS, TIMES)
TP = st.builds(TopicPartition, st.sampled_from(["a", "b.c-d", "ž"]), st.integers(0, 2**31 - 1))
BATCH = st.fixed_dictionaries(
    {
        "records": st.lists(RECORD, max_size=12),
        "codec": st.sampled_from(list(CODECS)),
        "base_time": st.integers(-(2**62 // 1000), 2**62 // 1000),
        "max_time": st.integers(-1, 2**45),
        "late": st.booleans(),
        "tail": st.integers(0, 9),
        "gap": st.integers(0, 5),
    }
)
SLICE = st.tuples(TP, st.lists(BATCH, max_size=3), st.integers(0, 2**40), st.binary(max_size=10))


def build(base: int, spec: dict[str, Any], tp: TopicPartition) -> tuple[bytes, list[Any], int]:
    """One batch, its rows, and the next free offset."""
    raw, rows, delta, late = [], [], -1, spec["late"]
    for gap, key, value, headers, time in spec["records"]:
        delta += gap
        named = [(name.encode(), data) for name, data in headers]
        raw.append(record(delta, value, key, named, time))
        stamp = spec["max_time"] if late else spec["base_time"] + time
        rows.append((key, value, *tp, base + delta, stamp * 1000, int(late), headers or None))
    last = max(delta, 0) + spec["tail"]
    options = {name: spec[name] for name in ("codec", "base_time", "max_time")}
    data = batch(
        *raw, base=base, attributes=LOG_APPEND_TIME if late else 0, last_delta=last, **options
    )
    return data, rows, base + last + 1


@given(st.lists(SLICE, max_size=4), st.data())
@examples(30)
def test_round_trip(slices: list[Any], draw: st.DataObject) -> None:
    """Any records, batches and slices come back, row by row, from both decoders."""
    parts, expected = [], []
    for tp, batches, base, tail in slices:
        data, rows, first = b"", [], base
        for spec in batches:
            more, more_rows, base = build(base + spec["gap"], spec, tp)
            data, rows = data + more, rows + more_rows
        start = draw.draw(st.integers(first, base + 1))
        end = draw.draw(st.integers(start, base + 1))
        expected += [row for row in rows if start <= row[4] < end]
        assert (base if batches else 7) == extent(memoryview(data), 7).next_offset
        # A partial batch may end the reply: fewer than 12 bytes can be nothing else.
        parts.append(make_slice(data + tail, start, end, tp))

    assert expected == decode_with("reference")(parts)
    assert expected == decode_with("kernel")(parts)


@given(st.binary(max_size=60), st.integers(0, 3))
@examples(90)
def test_any_records_section(section: bytes, count: int) -> None:
    """Any bytes as records: both decoders give the same rows or the same error."""
    data = batch(section=section, count=count, last_delta=2**31 - 1)

    assert _outcome("reference", data) == _outcome("kernel", data)


@given(st.binary(max_size=200))
@examples(35)
def test_any_reply(data: bytes) -> None:
    """Any bytes as a reply: the walk ends, and both decoders answer alike."""
    assert 0 <= extent(memoryview(data), 0).size <= len(data)
    assert _outcome("reference", data) == _outcome("kernel", data)


def _outcome(name: str, data: bytes) -> object:
    decode: Decode = decode_with(name)
    try:
        return decode([make_slice(data)], check_crcs=False)
    except Exception as error:
        return type(error).__name__, str(error)


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2).map(lambda n: EDGE + n)))
@settings(deadline=None)
def test_every_time(time: int) -> None:
    """Every 64-bit time is the right microseconds or an error, never a wrapped number."""
    data = batch(record(), base_time=time)
    fits = abs(time) * 1000 < 2**63
    for name in ("reference", "kernel"):
        outcome = _outcome(name, data)
        expected = (
            [(None, b"v", "clicks", 3, 0, time * 1000, 0, None)] if fits else "MalformedTimestamp"
        )

        assert expected == (outcome[0] if isinstance(outcome, tuple) else outcome)
