"""Headers of Confluent's wire format: one by one, and those of many values at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import KfetchError
from kfetch.formats.registry.headers import HEADERS_MAX, SchemaHeader, read_header, read_headers
from tests.kfetch.formats.avro.records import number
from tests.kfetch.formats.guarded import GuardedMemory
from tests.kfetch.formats.registry.scripted_registry import framed


@pytest.mark.parametrize(
    ("value", "header"),
    [
        (b"\0\0\0\0\x07", SchemaHeader(7, (), 5)),
        (b"\0\0\0\0\x07rest", SchemaHeader(7, (), 5)),
        (b"\0\x01\x02\x03\x04", SchemaHeader(0x01020304, (), 5)),
        (b"\0\x7f\xff\xff\xff", SchemaHeader(0x7FFFFFFF, (), 5)),
    ],
)
def test_an_id_is_four_bytes(value: bytes, header: SchemaHeader) -> None:
    """The highest byte comes first. What follows is the value."""
    assert header == read_header(value, indexed=False)


@pytest.mark.parametrize(
    ("indexes", "expected", "size"),
    [
        (b"\0", (0,), 6),
        (b"\0\0", (0,), 6),
        (b"\x02\x00", (0,), 7),
        (b"\x02\x02", (1,), 7),
        (b"\x04\x02\x04more", (1, 2), 8),
        (number(1) + number(300), (300,), 8),
        (number(32) + 32 * number(1), (1,) * 32, 38),
        (b"\x82\x00\x02", (1,), 8),
    ],
)
def test_message_indexes(indexes: bytes, expected: tuple[int, ...], size: int) -> None:
    """A count and as many indexes, as zigzag varints. A lone 0 is the first message."""
    assert SchemaHeader(9, expected, size) == read_header(framed(9, b"", indexes), indexed=True)


@pytest.mark.parametrize(
    ("value", "indexed", "problem", "at"),
    [
        (b"", False, "it is empty", 0),
        (b"", True, "it is empty", 0),
        (b"{}", False, "its first byte is not 0", 0),
        (b"\x01\0\0\0\x07", False, "its first byte is not 0", 0),
        (b"\0", False, "ends inside the id", 1),
        (b"\0\0\0\0", True, "ends inside the id", 4),
        (b"\0\x80\0\0\0", False, "the id of its schema is below 0", 1),
        (b"\0\xff\xff\xff\xff\0", True, "the id of its schema is below 0", 1),
        (b"\0\0\0\0\x07", True, "ends inside its message indexes", 5),
        (b"\0\0\0\0\x07\x04\x02", True, "ends inside its message indexes", 7),
        (b"\0\0\0\0\x07\x80", True, "ends inside its message indexes", 6),
        (b"\0\0\0\0\x07" + b"\x80" * 9, True, "is too long", 10),
        (framed(7, b"", number(33) + 33 * b"\0"), True, "a wrong number of message indexes", 5),
        (framed(7, b"", number(-1)), True, "a wrong number of message indexes", 5),
        (framed(7, b"", number(1) + number(-1)), True, "a message index below 0", 6),
    ],
)
def test_damaged_headers(value: bytes, indexed: bool, problem: str, at: int) -> None:
    """The sentence says what is wrong, and the byte where."""
    header = read_header(value, indexed=indexed)
    assert problem in header.damage
    assert (0, at) == (header.size, header.at)


_STARTS = st.sampled_from(
    [
        *(framed(7, b""), framed(7, b"", b"\0"), framed(7, b"", b"\x02\x02"), framed(1 << 31, b"")),
        *(framed(7, b"", b"\x82\x00\x02"), framed(7, b"", b"\x83"), b"\0", b"\0\0\0", b"", b"{"),
        *(b"\0\xff", framed((1 << 32) - 1, b"")),
    ]
)
_VALUES = st.one_of(st.none(), st.builds(bytes.__add__, _STARTS, st.binary(max_size=8)))


def _laid_out(values: list[bytes | None], gap: int) -> tuple[memoryview, GuardedMemory, list[int]]:
    """Values one behind the other; the last one ends where reading is a crash."""
    texts = [value or b"" for value in values]
    memory = GuardedMemory(sum(map(len, texts)) + gap * max(0, len(texts) - 1), alignment=1)
    whole = (b"\xee" * gap).join(texts)
    memory.bytes[:] = np.frombuffer(whole, np.uint8) if whole else 0
    starts, at = [], 0
    for text in texts:
        starts.append(at)
        at += len(text) + gap
    return memoryview(memory.bytes), memory, starts


@given(st.lists(_VALUES, max_size=40), st.sampled_from([0, 1, 5]), st.booleans())
def test_many_values_have_the_headers_of_each_one(
    values: list[bytes | None], gap: int, indexed: bool
) -> None:
    """Whole, cut and mixed headers are what each value alone has; no byte outside is read."""
    data, _memory, starts = _laid_out(values, gap)
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int32)
    found = read_headers(data, np.array(starts, np.int32), lengths, indexed=indexed)

    expected = [None if value is None else read_header(value, indexed=indexed) for value in values]
    assert expected == [None if i < 0 else found.distinct[i] for i in found.which.tolist()]
    sizes = [0 if header is None else header.size for header in expected]
    assert sizes == found.sizes[found.which].tolist()


def test_an_endless_index_is_damage_of_its_value_alone() -> None:
    """32 indexes whose last one does not end within the bytes of a header: one value is damaged."""
    header = b"\0" + (1).to_bytes(4, "big") + b"\xc0\x80\x80\x80\0" + b"\x80\x80\x80\x80\0" * 31
    value = header + b"\x80" * 5 + b"\x01rest"
    data, lengths = value, np.array([len(value)])

    found = read_headers(data, np.array([0]), lengths, indexed=True)

    assert found.distinct[0].damage == read_header(value, indexed=True).damage
    assert found.distinct[0].damage is not None


def test_headers_have_a_limit() -> None:
    """Values that are no Avro at all may name any number of ids."""
    values = [framed(i, b"") for i in range(HEADERS_MAX + 1)]
    data, _memory, starts = _laid_out([*values], 0)
    lengths = np.full(len(values), 5, np.int32)
    with pytest.raises(KfetchError, match="more than 1,000 different headers"):
        read_headers(data, np.array(starts, np.int32), lengths, indexed=False)

    most = read_headers(data, np.array(starts[:-1], np.int32), lengths[:-1], indexed=False)
    assert HEADERS_MAX == len(most.distinct)
