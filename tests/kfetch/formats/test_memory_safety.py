"""The compiled loops touch no byte outside their buffers, whatever the documents are.

A byte too many ends the process: its memory is guarded (``guarded``).
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.columns import decoded, node_table
from kfetch.records.memory import Memory
from tests.kfetch.formats.guarded import GuardedColumn, GuardedMemory
from tests.kfetch.formats.json import documents
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.json.rows import column_of
from tests.kfetch.formats.vectors import decoder

_TAILS = [
    *(b",1", b",null", b"[", b"{", b'"', b"1", b" ", b",[", b'{"a":', b"\\u00", b'\\"', b"]", b"}"),
    *(b",", b'":', b"\xf0", b"-1.", b"1e", b"AAAA", b"\x00", b'"2024-01-01T01:01:01.', b"tru"),
    *(b',"a":1', b',"a"', b"0"),
]
"""What stands behind a document that ends too early, again and again."""


class _Patched:
    """While it is open, columns are guarded."""

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(decoded, "StructColumn", GuardedColumn)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def _guarded_rows(schema: str, items: list[bytes], tail: bytes, gap: int) -> list[object]:
    """Decodes items that lie in guarded memory, each with ``gap`` bytes of ``tail`` behind it."""
    behind = (tail * gap)[:gap]
    memory = GuardedMemory(sum(map(len, items)) + gap * len(items), alignment=1)
    memory.bytes[:] = np.frombuffer(b"".join(item + behind for item in items), np.uint8)
    lengths = np.array([len(item) for item in items], np.int32)
    positions = np.cumsum(lengths + gap, dtype=np.int64) - lengths - gap
    with _Patched():
        result = decoder(schema).decode(memoryview(memory.bytes), positions, lengths)
    result.values.validate(full=True)
    return plain(result.values)


@given(
    seed=st.integers(0, 1 << 32),
    tail=st.sampled_from(_TAILS),
    gap=st.sampled_from([0, 1, node_table.SLACK, node_table.SLACK + 1]),
)
def test_no_byte_outside_is_touched(seed: int, tail: bytes, gap: int) -> None:
    """Random documents, whole and cut anywhere, give their rows whatever stands behind them."""
    rng = Random(seed)
    kind = documents.schema(rng)
    items = [documents.document(rng, kind, 0.02) for _ in range(8)]
    items = [item if rng.random() < 0.3 else item[: rng.randint(0, len(item))] for item in items]
    using = decoder(documents.ddl(kind))
    expected = column_of([using.reference_row(item).row for item in items], using.schema)
    assert plain(expected) == _guarded_rows(documents.ddl(kind), items, tail, gap)


_WIDE = (
    "s STRING, l ARRAY<ARRAY<INT>>, m MAP<STRING, STRING>, b BINARY, t TIMESTAMP, "
    "d DECIMAL(9,2), f DOUBLE"
)
_CUT = [
    *(b'{"l":[[1,2],[1', b'{"l":[[1', b'{"l":[', b'{"l":[[null', b'{"m":{"a":"x', b'{"b":"AQID'),
    *(b'{"t":"2024-01-01T00:00', b'{"d":12.5', b'{"f":1.5e', b'{"s":{"x":[1', b'{"s":["a'),
    *(b'{"unknown":[1', b'{"s":"a\\'),
]


@pytest.mark.parametrize("tail", _TAILS)
def test_a_document_ends_where_its_length_says(tail: bytes) -> None:
    """What stands behind a cut document continues it, up to the end of the memory."""
    using = decoder(_WIDE)
    for document in _CUT:
        expected = plain(column_of([using.reference_row(document).row], using.schema))
        assert expected == _guarded_rows(_WIDE, [document], tail, node_table.SLACK), document


def test_buffers_grow_in_time() -> None:
    """Lists, maps and text that outgrow their buffers stay inside them."""
    items = ",".join(f"[{i},{i}]" for i in range(500))
    pairs = ",".join(f'"key {i}":"{"v" * (i % 70)}"' for i in range(500))
    document = f'{{"s":[{items}],"l":[{items}],"m":{{{pairs}}}}}'.encode()
    using = decoder(_WIDE)
    expected = plain(column_of([using.reference_row(document).row] * 3, using.schema))
    assert expected == _guarded_rows(_WIDE, [document] * 3, b",1", node_table.SLACK)


class _Counted(Memory):
    size = 0

    def reserve(self, size: int) -> None:
        self.size += size


def test_a_list_that_is_cut_reads_no_other_record() -> None:
    """Elements behind the end of a value need no memory, so nobody has read them."""
    memory, document = _Counted(), b'{"l":[1'
    data = document + b",1" * 100_000
    lengths = np.array([len(document)], np.int32)
    decoder("l ARRAY<INT>").decode(data, np.zeros(1, np.int64), lengths, memory)
    small = _Counted()
    decoder("l ARRAY<INT>").decode(document, np.zeros(1, np.int64), lengths, small)
    assert small.size == memory.size
