"""Some of the columns: the same cells as with all columns, in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch import decoding
from kfetch.compiled import kernel
from kfetch.errors import CorruptBatch, MalformedTimestamp
from kfetch.records import Columns, Memory, Slice, arrow, schema_of
from kfetch.records.arrow import delivered, row_bytes
from kfetch.records.sections import sections
from tests.examples import examples
from tests.kfetch.decoders import DECODERS, decode
from tests.kfetch.records.batch_builder import TP, batch, make_slice, record
from tests.kfetch.records.legacy_builder import message
from tests.kfetch.records.test_properties import SLICE, build

ALL = Columns(headers=True, leader_epoch=True, serialized_sizes=True)
NAMES = st.lists(st.sampled_from(delivered(ALL)), min_size=1, unique=True).map(tuple)
STRINGS = st.sets(st.sampled_from(["key", "value"])).map(tuple)


def decoded(name: str, slices: Sequence[Slice], columns: Columns) -> pa.RecordBatch | None:
    """The batch of one decoder. The kernel's is the same from slices and from sections."""
    in_range = sections(slices, check_crcs=True)
    rows = DECODERS[name].decode(in_range, columns=columns) if in_range else None
    if name == "kernel":
        assert rows == kernel.decode_slices(slices, columns=columns, check_crcs=True)
    return rows


def as_bytes(array: Any) -> Any:
    """A column of strings as bytes."""
    if array.type != pa.string():
        return array
    return pa.Array.from_buffers(pa.binary(), len(array), array.buffers())


def slices_of(specs: list[Any]) -> list[Slice]:
    """Slices of any batches."""
    parts = []
    for tp, batches, base, tail in specs:
        data = b""
        for spec in batches:
            more, _, base = build(base + spec["gap"], spec, tp)
            data += more
        parts.append(make_slice(data + tail, 0, 2**62, tp))
    return parts


@given(st.lists(SLICE, max_size=3), NAMES, STRINGS)
@examples(30)
def test_any_columns_of_any_records(
    specs: list[Any], names: tuple[str, ...], strings: tuple[str, ...]
) -> None:
    """Both decoders give each column as they give it among all columns. A key or a value as a
    string has the same bytes."""
    slices, columns = slices_of(specs), ALL._replace(names=names, strings=strings)
    everything = decoded("reference", slices, ALL)
    for decoder in DECODERS:
        some = decoded(decoder, slices, columns)
        assert (some is None) is (everything is None)
        if some is None or everything is None:
            continue
        assert schema_of(columns) == some.schema
        for name in names:
            assert as_bytes(everything.column(name)).equals(as_bytes(some.column(name)))


KEYS = st.sampled_from([b"a", b"b", b"", b"\xff", b"\xfe", "ž".encode()])
HEADERS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), max_size=6)


def mapped(pairs: Sequence[tuple[str, bytes | None]] | None) -> dict[str, bytes | None] | None:
    """Headers as a map: Kafka's ``lastHeader`` for each key, in the order of the first ones."""
    if pairs is None:
        return None
    return {key: [value for other, value in pairs if other == key][-1] for key, _ in pairs}


@given(st.lists(HEADERS, max_size=8))
@examples(100)
def test_headers_as_a_map(lists: list[list[tuple[bytes, bytes | None]]]) -> None:
    """A map has each key of the array once, with its last value, also if keys are equal only after
    U+FFFD has replaced bytes that are no UTF-8."""
    data = batch(*[record(i, headers=headers) for i, headers in enumerate(lists)])
    slices = [make_slice(data)]
    array = decoded("reference", slices, Columns(headers=True))
    cells = array.column("headers").to_pylist() if array is not None else []
    pairs = [cell and [(h["key"], h["value"]) for h in cell] for cell in cells]
    expected = [cell and list(cell.items()) for cell in map(mapped, pairs)]
    columns = Columns(headers=True, headers_as_map=True)
    for decoder in DECODERS:
        rows = decoded(decoder, slices, columns)
        assert expected == (rows.column("headers").to_pylist() if rows is not None else [])
        if rows is not None:
            rows.validate(full=True)
            assert schema_of(columns) == rows.schema


@pytest.mark.parametrize("decoder", DECODERS)
def test_old_formats(decoder: str) -> None:
    """Messages of v0 and v1 have no headers, no epochs, and any of the columns."""
    slices = [make_slice(message(0, b"old", b"k", magic=0) + message(1, None, magic=1))]
    columns = ALL._replace(headers_as_map=True, names=("headers", "value", "leaderEpoch"))
    rows = decoded(decoder, slices, columns)

    assert rows is not None
    assert [
        {"headers": None, "value": b"old", "leaderEpoch": None},
        {"headers": None, "value": None, "leaderEpoch": None},
    ] == rows.to_pylist()


@pytest.mark.parametrize("decoder", DECODERS)
def test_bytes_that_are_not_utf_8(decoder: str) -> None:
    """A string has the bytes of the record as they are, like Spark's CAST(value AS STRING)."""
    data = batch(record(0, b"a\xff"), record(1, "ž".encode(), b"\x80"), record(2, None))
    columns = Columns(names=("value", "key"), strings=("key", "value"))
    rows = decoded(decoder, [make_slice(data)], columns)

    assert rows is not None
    assert schema_of(columns) == rows.schema
    assert [b"a\xff", "ž".encode(), None] == as_bytes(rows.column("value")).to_pylist()
    assert [None, b"\x80", None] == as_bytes(rows.column("key")).to_pylist()


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("names", [("partition",), ("value",), ("serializedKeySize", "topic")])
def test_records_are_checked_whatever_the_columns(decoder: str, names: tuple[str, ...]) -> None:
    """Damage and times beyond Spark's are errors, also in columns that nobody reads."""
    columns = ALL._replace(names=names)
    damaged = bytearray(batch(record(value=b"x" * 9000), record(1)))
    damaged[5000] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        DECODERS[decoder].decode(
            sections([make_slice(bytes(damaged))], check_crcs=True), columns=columns
        )
    with pytest.raises(MalformedTimestamp):
        decoded(decoder, [make_slice(batch(record(), base_time=2**62))], columns)


def test_damage_in_a_value_that_nobody_reads() -> None:
    """The kernel finds a wrong CRC of a large value without its column."""
    data = bytearray(batch(record(value=b"x" * 9000), record(1)))
    data[5000] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        decode([make_slice(bytes(data))], columns=Columns(names=("offset",)))


class _Reserved(Memory):
    """Sums up what a decode call reserves."""

    size = 0

    def reserve(self, size: int) -> None:
        self.size += size


RECORDS = [record(i, b"v" * 1000, b"k" * 100, [(b"h", b"i" * 50)]) for i in range(50)]


@pytest.mark.parametrize(
    ("names", "data", "of_a_row", "temporary"),
    [
        ((), True, 3 * 4 + 2 * 4 + 2 * 8 + len(TP.topic), 0),
        (("partition",), False, 4, 8),
        (("offset", "timestamp", "leaderEpoch"), False, 20, 8),
        (("topic",), False, 4 + len(TP.topic), 8),
        (("serializedValueSize", "serializedKeySize"), False, 8, 16),
        (("value", "offset"), True, 12, 0),
        (("value", "serializedValueSize", "offset"), True, 16, 0),
        (("headers",), True, 4, 16),
    ],
)
def test_memory_of_columns(
    names: tuple[str, ...], data: bool, of_a_row: int, temporary: int
) -> None:
    """The kernel reserves memory for the columns that it builds, and for temporary buffers. What
    nobody reads goes to one of these, unless another column's buffer can take it."""
    raw, memory = batch(*RECORDS), _Reserved()
    columns = Columns(names=names)
    in_range = sections([make_slice(raw)], check_crcs=True)
    rows = kernel.decode(in_range, columns=columns, memory=memory)

    assert of_a_row == row_bytes(columns, len(TP.topic))
    assert rows is not None
    size = 50 * of_a_row + (len(in_range[0].data) if data else 0)
    assert size + 50 * temporary == memory.size
    assert rows.get_total_buffer_size() <= memory.size + 50 * 4 + 64 * 16


@pytest.mark.parametrize("name", delivered(ALL))
def test_memory_covers_the_buffers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory reserved for one column is at least that of its buffers and of temporary ones,
    beside a bit of validity for each cell."""
    allocated = []

    class Buffers(arrow.ColumnBuffers):
        def __init__(self, *sizes: int) -> None:
            allocated.extend(sizes)
            super().__init__(*sizes)

    monkeypatch.setattr(kernel, "ColumnBuffers", Buffers)
    memory, count = _Reserved(), 1000
    in_range = sections([make_slice(batch(*[record(i) for i in range(count)]))], check_crcs=True)
    columns = ALL._replace(names=(name,))
    rows = kernel.decode(in_range, columns=columns, memory=memory)

    assert rows is not None
    computed = rows.nbytes if name.startswith(("serialized", "leader")) else 0
    validity_and_slack = 4 * count // 8 + 1000
    assert sum(allocated) + computed <= memory.size + validity_and_slack


def test_a_part_counts_the_columns_that_it_builds() -> None:
    """A part of the rows is as large as the memory allows for the columns wanted."""
    data = b"".join(
        batch(*[record(i, b"") for i in range(200)], base=200 * n, codec="zstd") for n in range(40)
    )
    sizes = []
    for names in ((), ("partition",)):
        part, _ = decoding.decode_part(
            [make_slice(data)], columns=Columns(names=names), memory=Memory(50_000)
        )
        assert part is not None
        sizes.append(part.num_rows)

    assert sizes[0] * 2 < sizes[1] < 8000
