"""A value that unfolds to far more than its bytes is a bad record, and takes no more memory."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kfetch.errors import KfetchError
from kfetch.formats.columns import node_table as nodes
from kfetch.formats.columns import struct_column as columns
from kfetch.formats.columns.struct_column import StructColumn, value_limit
from kfetch.records import Memory
from kfetch.records.memory import UNLIMITED
from tests.examples import examples
from tests.kfetch.formats import vectors
from tests.kfetch.formats.avro import cases as avro_cases
from tests.kfetch.formats.avro.records import number as avro_number
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.test_decoder import ProtobufDecoder, load
from tests.kfetch.formats.protobuf.wire import number, sized

_LIMIT = 1 << 16
_NAMES = [f"f{i}" for i in range(50)]
_REASON = "its text and its elements take more than 0 MiB as columns"
_IN_PYTHON = _REASON.replace("as columns", "in Python")


class _Most(Memory):
    """Counts the most bytes that a call has reserved at once."""

    now = most = 0

    def reserve(self, size: int) -> None:
        self.now += size
        self.most = max(self.most, self.now)

    def release(self, size: int) -> None:
        self.now -= size


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_VALUE_BYTES_MAX", _LIMIT)
    monkeypatch.setattr(columns, "_UNFOLDED_MAX", 1)


def _json(element: bytes, count: int, rest: bytes = b"") -> bytes:
    return b'{"a":[' + b",".join([element] * count) + b"]" + rest + b"}"


_FIELDS = ",".join(f"{name}: BIGINT" for name in _NAMES)
_DDL = f"id INT, a ARRAY<STRUCT<{_FIELDS}>>"
_AVRO: Any = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {
            "name": "a",
            "type": {
                "type": "array",
                "items": [
                    "null",
                    {
                        "type": "record",
                        "name": "E",
                        "fields": [{"name": name, "type": "long"} for name in _NAMES],
                    },
                ],
            },
        },
    ],
}
_PROTO_FIELDS = " ".join(f"int64 {name} = {i + 1};" for i, name in enumerate(_NAMES))
_LONG = "N" * 3000
_PROTO = f"""
syntax = "proto3"; package t;
enum E {{ ZERO = 0; {_LONG} = 1; }}
message Wide {{ {_PROTO_FIELDS} }}
message M {{ int32 id = 1; repeated Wide a = 2; repeated E e = 3; }}
"""


def _proto_decoder() -> ProtobufDecoder:
    return ProtobufDecoder(descriptor_set(_PROTO), "t.M", load("protobuf"))


_FORMATS: dict[str, tuple[Any, bytes, bytes, list[Any]]] = {
    "json": (
        lambda: vectors.decoder(_DDL),
        b'{"id":7}',
        _json(b"{}", 1000, b',"id":5'),
        [{"id": None, "a": None}, {"id": 7, "a": None}],
    ),
    "json in Python": (
        lambda: vectors.decoder(_DDL),
        b'{"id":7}',
        _json(b"{'f0':1}", 60, b',"id":5'),
        [{"id": None, "a": None}, {"id": 7, "a": None}],
    ),
    "avro": (
        lambda: avro_cases.decoder(_AVRO),
        b"\x0e\x00",
        b"\x0a" + b"\xd0\x0f" + bytes(1000) + b"\x00",
        [{"id": None, "a": None}, {"id": 7, "a": []}],
    ),
    "protobuf": (
        _proto_decoder,
        number(1, 7),
        number(1, 5) + sized(2, b"") * 1000,
        [None, {"id": 7, "a": [], "e": []}],
    ),
    "names of an enum": (
        _proto_decoder,
        number(1, 7),
        number(1, 5) + sized(3, b"\x01" * 100),
        [None, {"id": 7, "a": [], "e": []}],
    ),
}


@pytest.mark.parametrize("order", [[1, 0, 1], [0, 0], [0, 1], [1, 1, 0]])
@pytest.mark.parametrize("name", _FORMATS)
def test_a_value_that_unfolds_is_a_bad_record(name: str, order: list[int]) -> None:
    """It is corrupt, wherever it stands. The others keep their rows, and memory has its limit."""
    make, good, large, (refused, kept) = _FORMATS[name]
    using, memory = make(), _Most()
    column = pa.array([good if item else large for item in order], pa.binary())
    result = using.decode_column(column, memory)
    result.values.validate(full=True)

    assert [kept if item else refused for item in order] == result.values.to_pylist()
    assert [i for i, item in enumerate(order) if not item] == result.corrupt.tolist()
    assert memory.most < 8 * _LIMIT
    problem = using.problem(large)
    assert (_IN_PYTHON if "Python" in name else _REASON, 0) == (problem.what, problem.at)
    assert using.problem(good) is None


@pytest.mark.parametrize("count", [12, 13, 20, 40, 60, 200])
@pytest.mark.parametrize("padding", [0, _LIMIT, 2 * _LIMIT])
def test_python_and_the_loops_have_one_limit(count: int, padding: int) -> None:
    """A row that Python accepts has room in the columns: fields of null structs count, too.

    Bytes of the value count, and not those of the row that stands for it.
    """
    wide = (
        f"a ARRAY<STRUCT<inside: STRUCT<{_FIELDS}>>>, m MAP<STRING, STRUCT<b: STRUCT<{_FIELDS}>>>"
    )
    using = vectors.decoder(wide)
    pairs = b",".join(b"'%d':{}" % i for i in range(count))
    value = _json(b"{}", count, b",'m':{" + pairs + b"}" + b" " * padding)
    result = using.decode_column(pa.array([value], pa.binary()))
    assert (using.problem(value) is not None) == (len(result.corrupt) == 1)


@pytest.mark.parametrize("rest", [b"", b",'id':\"x\""])
@pytest.mark.parametrize("quote", [b"'", b'"'])
def test_elements_of_few_fields_fit_in_python_as_in_the_loops(quote: bytes, rest: bytes) -> None:
    """Each element counts once. A dead letter has the real reason."""
    using = vectors.decoder(_DDL)
    value = _json(b"{'f0':1}", 40, rest).replace(b"'", quote)
    result = using.decode_column(pa.array([value], pa.binary()))
    problem = using.problem(value)

    assert 40 == len(result.values.to_pylist()[0]["a"])
    assert (problem and problem.what) == ("field id is no INT" if rest else None)


def test_python_has_a_limit_for_its_objects() -> None:
    """Bits of columns can be far more as Python's objects. Then the reason names Python."""
    names = ", ".join(f"{name} BOOLEAN" for name in _NAMES)
    using = vectors.decoder(f"a ARRAY<STRUCT<{names}>>")
    values = [_json(b"{'f0':true}", count) for count in (40, 60)]
    result = using.decode_column(pa.array(values, pa.binary()))
    problem = using.problem(values[1])

    assert [1] == result.corrupt.tolist()
    assert problem is not None
    assert _IN_PYTHON == problem.what


@pytest.mark.parametrize("name", [name for name in _FORMATS if name != "json in Python"])
def test_large_values_side_by_side_have_the_limit_each(name: str) -> None:
    """Many values that fit become a column of more than the limit of one."""
    make, _, large, _ = _FORMATS[name]
    using = make()
    count = 3 if name.startswith("names") else 100
    part = {
        "json": _json(b"{}", count),
        "avro": b"\x0a\xc8\x01" + bytes(count) + b"\x00",
        "protobuf": sized(2, b"") * count,
        "names of an enum": sized(3, b"\x01" * count),
    }[name]
    result = using.decode_column(pa.array([part] * 30 + [large], pa.binary()))
    result.values.validate(full=True)

    assert [30] == result.corrupt.tolist()
    assert result.values.nbytes > 2 * _LIMIT


_LISTS = [f"l{i}" for i in range(10)]
_LISTS_PROTO = "\n".join(f"repeated int64 {name} = {i + 1};" for i, name in enumerate(_LISTS))
_LISTS_AVRO: Any = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": name, "type": {"type": "array", "items": "long"}, "default": []} for name in _LISTS
    ],
}
_OF_LISTS: dict[str, tuple[Any, Any]] = {
    "json": (
        lambda: vectors.decoder(", ".join(f"{name} ARRAY<BIGINT>" for name in _LISTS)),
        lambda counts: json.dumps(
            {name: [1] * count for name, count in zip(_LISTS, counts, strict=True)}
        ).encode(),
    ),
    "avro": (
        lambda: avro_cases.decoder(_LISTS_AVRO),
        lambda counts: b"".join(
            avro_number(count) + b"\2" * count + avro_number(0) * bool(count) for count in counts
        ),
    ),
    "protobuf": (
        lambda: ProtobufDecoder(
            descriptor_set(f'syntax = "proto3"; package t; message M {{ {_LISTS_PROTO} }}'),
            "t.M",
            load("protobuf"),
        ),
        lambda counts: b"".join(sized(i + 1, b"\1" * n) for i, n in enumerate(counts)),
    ),
}
_SLOT_BITS = 65


@pytest.mark.parametrize("name", _OF_LISTS)
@given(
    others=st.lists(st.integers(0, 3000), max_size=3),
    shares=st.lists(st.sampled_from([0, 1, 5, 9]), min_size=10, max_size=10),
    surplus=st.sampled_from([-5, 0, 1, 1000, 40_000]),
)
@example(others=[], shares=[1, 1] + 8 * [0], surplus=1)
@example(others=[2000], shares=10 * [1], surplus=40_000)
@examples(40)
def test_all_lists_of_a_value_have_one_limit(
    name: str, others: list[int], shares: list[int], surplus: int
) -> None:
    """A value is corrupt if its lists together take more than the limit, whatever stands beside it.

    Until that is known, they take no more than twice the limit.
    """
    make, encoded = _OF_LISTS[name]
    using, memory = make(), _Most()
    most = 8 * _LIMIT // _SLOT_BITS
    total = (most + surplus) * bool(sum(shares))
    counts = [total * share // max(1, sum(shares)) for share in shares]
    value = encoded(counts)
    values = [encoded([count] + 9 * [0]) for count in others] + [value]
    result = using.decode_column(pa.array(values, pa.binary()), memory)
    result.values.validate(full=True)
    limit = value_limit(len(value))
    is_too_large = sum(counts) * _SLOT_BITS > 8 * limit

    assert is_too_large == (len(others) in result.corrupt.tolist())
    assert not is_too_large or _REASON == using.problem(value).what
    assert memory.most < 8 * _LIMIT + sum(others) * 32


@pytest.mark.parametrize("where", ["s", "m"])
@pytest.mark.parametrize(
    ("quote", "characters", "count", "reason"),
    [('"', 12_000, 7000, _REASON), ("'", 10_000, 2000, _IN_PYTHON)],
)
def test_text_and_elements_have_one_limit(
    where: str, quote: str, characters: int, count: int, reason: str
) -> None:
    """The loops and Python refuse a value whose text and elements fit only without each other."""
    using = vectors.decoder("s STRING, m MAP<STRING, INT>, a ARRAY<BIGINT>")
    long = "x" * characters
    text = f"'s':'{long}'" if where == "s" else f"'m':{{'{long}':1}}"
    elements = "'a':[" + "1," * count + "1]"
    values = [
        f"{{{part}}}".replace("'", quote).encode()
        for part in (text, elements, text + "," + elements)
    ]
    corrupt = [len(using.decode_column(pa.array([one], pa.binary())).corrupt) for one in values]
    problem = using.problem(values[2])

    assert [0, 0, 1] == corrupt
    assert problem is not None
    assert reason == problem.what


def test_the_limit_grows_with_the_value() -> None:
    """A large value may take many times its own bytes, so that no honest one is refused."""
    assert _LIMIT == value_limit(0) == value_limit(_LIMIT)
    assert 2 * _LIMIT == value_limit(2 * _LIMIT)


@pytest.mark.parametrize(
    ("stuck", "at", "used"),
    [(1, nodes.ROOM, nodes.SIZE), (~3, nodes.CAPACITY, nodes.COUNT)],
)
def test_a_column_beyond_int32_offsets_is_an_error(stuck: int, at: int, used: int) -> None:
    """Text and elements stop at 2 GiB, and the sentence says what to do."""
    column = StructColumn(vectors.decoder("s STRING, l ARRAY<INT>").plan, 1, 0, UNLIMITED)
    node = stuck if stuck >= 0 else ~stuck
    column.table[node, [at, used]] = 2**31 - 1, 2**31 - 1000
    with pytest.raises(KfetchError, match=r"lower kafka\.max\.partition\.fetch\.bytes"):
        column.grow(stuck, 1)


def test_a_column_grows_up_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room that can't double any more goes up to the limit of 32-bit offsets, not only to half."""
    grown: list[tuple[int, int]] = []
    monkeypatch.setattr(
        StructColumn, "_resize", lambda _, number, at, old, new: grown.append((old, new))
    )
    monkeypatch.setattr(columns, "_VALUE_BYTES_MAX", 1 << 32)
    column = StructColumn(vectors.decoder("s STRING").plan, 1, 0, UNLIMITED)
    column.table[1, [nodes.ROOM, nodes.SIZE]] = 3 << 29, 3 << 29
    assert column.grow(1, 1)

    assert [(3 << 29, 2**31 - 1)] == grown
