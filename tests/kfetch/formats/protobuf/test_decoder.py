"""The Protobuf decoder: columns, refused values, buffers and memory."""

from __future__ import annotations

import mmap
import struct
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.columns.decoded import Problem
from kfetch.formats.loading import load
from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.formats.protobuf.descriptors import read_descriptors
from tests.examples import examples
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.protobuf.messages import file_text, value
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import fixed32, group, number, sized, tag, varint

_FILE = """
syntax = "proto3"; package t;
enum E { ZERO = 0; ONE = 1; }
message Line { string name = 1; repeated int32 sizes = 2; }
message M { int64 id = 1; string name = 2; repeated Line lines = 3; map<string, double> m = 4;
            E kind = 5; repeated string tags = 6; google.protobuf.Timestamp at = 7; }
"""
_PAGE = mmap.PAGESIZE


def decoder(file: str = _FILE) -> ProtobufDecoder:
    """A decoder of the message t.M."""
    return ProtobufDecoder(descriptor_set(file), "t.M", load("protobuf"))


def rows(values: list[bytes | None], file: str = _FILE) -> list[Any]:
    """The rows of values."""
    result = decoder(file).decode_column(pa.array(values, pa.binary()))
    result.values.validate(full=True)
    return plain(result.values)


def _row(**fields: Any) -> dict[str, Any]:
    empty = {"id": None, "name": None, "lines": [], "m": [], "kind": None, "tags": [], "at": None}
    return empty | fields


def test_rows() -> None:
    """Null values are null. An empty value is a message without fields."""
    line = sized(1, b"a") + sized(2, b"\x01\x02")
    entry = sized(1, b"k") + tag(2, 1) + struct.pack("<d", 1.5)
    full = number(1, 7) + sized(2, "Łódź".encode()) + sized(3, line) + sized(4, entry)
    full += number(5, 1) + sized(6, b"x") + sized(7, number(1, 1) + number(2, 5000))
    expected = _row(
        id=7, name="Łódź", lines=[{"name": "a", "sizes": [1, 2]}], m=[["k", "3ff8000000000000"]],
        kind="ONE", tags=["x"], at=1_000_005,
    )  # fmt: skip
    assert [expected, None, _row(), expected] == rows([full, None, b"", full])


def test_lists_are_in_the_order_of_the_value() -> None:
    """Elements between other fields, packed or not, belong to the same list."""
    line = number(2, 1) + sized(1, b"x") + sized(2, b"\x02\x03") + number(2, 4)
    value = sized(3, line) + sized(6, b"a") + sized(3, b"") + sized(6, b"b") + sized(3, line)
    full = {"name": "x", "sizes": [1, 2, 3, 4]}
    lines = [full, {"name": None, "sizes": []}, full]
    assert [_row(lines=lines, tags=["a", "b"])] == rows([value])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", None),
        (number(1, 5), None),
        (number(1, 5) + b"\x12\x05abc", Problem(table.REASONS[1], 2)),
        (tag(1, 0) + b"\xff" * 11, Problem(table.REASONS[2], 0)),
        (b"\x00\x00", Problem(table.REASONS[3], 0)),
        (number(1, 5) + tag(9, 6), Problem(table.REASONS[4], 2)),
        (tag(2, 2) + varint(-1), Problem(table.REASONS[5], 0)),
        (tag(9, 4), Problem(table.REASONS[6], 0)),
        (number(1, 5) + sized(2, b"\xff"), Problem(table.REASONS[7], 2)),
        (tag(9, 3) * 101, Problem(table.REASONS[8], 0)),
        (number(1, 5) + fixed32(1, 5) + number(1, 5), Problem(table.REASONS[10], 2)),
        (sized(7, number(1, 1 << 53)), Problem(table.REASONS[11], 11)),
    ],
)
def test_a_problem_says_what_and_where(value: bytes, problem: Problem | None) -> None:
    """The reason names the rule, and the byte where the field starts."""
    assert problem == decoder().problem(value)
    assert [None if problem else _row(id=5)] == rows([value]) or not value


def test_a_missing_required_field_is_a_problem() -> None:
    """It stands behind the last byte, because only the end shows it."""
    file = 'syntax = "proto2"; package t; message M { required int32 a = 1; }'
    assert Problem(table.REASONS[9], 0) == decoder(file).problem(b"")


@given(st.integers(0, 5000), st.sampled_from([0.0, 0.1, 0.5]))
@examples(10)
def test_each_value_means_the_same_alone(seed: int, damage: float) -> None:
    """A value's row does not depend on the values before it, whatever they are."""
    rng = Random(seed)
    file = file_text(rng)
    types, using = read_descriptors(descriptor_set(file)), decoder(file)
    values = [value(rng, types, "t.M", damage) for _ in range(8)]
    together = using.decode_column(pa.array(values, pa.binary()))
    together.values.validate(full=True)
    alone = [plain(using.decode_column(pa.array([item], pa.binary())).values)[0] for item in values]
    assert alone == plain(together.values)
    assert [bool(using.problem(item)) for item in values] == [row is None for row in alone]


@pytest.fixture(scope="module")
def fenced() -> mmap.mmap:
    """Two pages, the second of which can't be read."""
    import ctypes

    pages = mmap.mmap(-1, 2 * _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + _PAGE), _PAGE, 0) == 0
    return pages


@given(st.integers(0, 5000), st.sampled_from([0.0, 0.3]))
@examples(10)
def test_nothing_behind_a_value_is_read(fenced: mmap.mmap, seed: int, damage: float) -> None:
    """Each cut of a value may end at a page that can't be read. A read would end the process."""
    rng = Random(seed)
    file = file_text(rng)
    types, using = read_descriptors(descriptor_set(file)), decoder(file)
    whole = value(rng, types, "t.M", damage)[:_PAGE]
    view = memoryview(fenced)[:_PAGE]
    for size in {len(whole), *(rng.randint(0, len(whole)) for _ in range(5))}:
        view[_PAGE - size :] = whole[:size]
        positions, lengths = np.array([_PAGE - size]), np.array([size], np.int32)
        row = plain(using.decode(view, positions, lengths).values)
        assert rows([whole[:size]], file) == row


def test_names_of_enums_may_be_longer_than_the_values() -> None:
    """The column of names grows, although the values have one byte each."""
    name = "N" * 300
    types = f"enum E {{ Z = 0; {name} = 1; }} message M {{ repeated E e = 1; }}"
    file = f'syntax = "proto3"; package t; {types}'
    assert [{"e": [name] * 1000}] * 3 == rows([sized(1, b"\x01" * 1000)] * 3, file)


def test_lists_grow() -> None:
    """Lists with more elements than records grow, with their strings and inner lists."""
    line = sized(1, b"name") + sized(2, b"\x01" * 50)
    one = {"name": "name", "sizes": [1] * 50}
    assert [_row(lines=[one] * 500)] * 2 == rows([sized(3, line) * 500] * 2)


def test_groups_are_skipped() -> None:
    """Unknown groups and all in them are skipped."""
    assert [_row(id=7)] == rows([group(20, group(1, number(1, 5)) + sized(2, b"x")) + number(1, 7)])
