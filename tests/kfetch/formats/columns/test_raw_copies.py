"""Copies of the bytes of some records: their content, their memory and their limit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import KfetchError
from kfetch.formats.columns.decoded import DecodedColumn
from kfetch.formats.columns.raw_copies import copies, texts
from kfetch.formats.columns.struct_column import positions_of
from kfetch.records.memory import UNLIMITED, Memory
from tests.kfetch.formats.vectors import decoder


class Counted(Memory):
    """Counts what a call reserves."""

    size = 0

    def reserve(self, size: int) -> None:
        """See Memory."""
        self.size += size


values = st.lists(st.none() | st.binary(max_size=5), max_size=20)


@given(values=values, data=st.data())
def test_copies(values: list[bytes | None], data: st.DataObject) -> None:
    """Listed records have their bytes and all others are null. The memory is counted before."""
    numbers = st.sets(st.sampled_from(range(len(values)))) if values else st.just(set[int]())
    listed = sorted(data.draw(numbers))
    memory = Counted()
    column = pa.array([b"first", *values, b"last"], pa.binary())[1:-1]

    copied = copies(*positions_of(column), np.array(listed, np.int32), memory)

    copied.validate(full=True)
    assert [value if i in listed else None for i, value in enumerate(values)] == copied.to_pylist()
    assert sum(buffer.size for buffer in copied.buffers() if buffer) <= memory.size


@given(st.dictionaries(st.integers(0, 9), st.text(max_size=5)))
def test_texts(sentences: dict[int, str]) -> None:
    """Each listed row has its sentence, and all others are null."""
    rows = np.array(sorted(sentences), np.int32)
    column = texts(10, rows, [sentences[row] for row in sorted(sentences)], UNLIMITED)
    column.validate(full=True)
    assert [sentences.get(row) for row in range(10)] == column.to_pylist()


def test_copies_are_limited() -> None:
    """More than 2 GiB is one clear error before any copy, and never a column of several chunks."""
    lengths = np.full(3, 1 << 30, np.int32)
    with pytest.raises(KfetchError, match=r"lower kafka\.max\.partition\.fetch\.bytes"):
        copies(b"", np.zeros(3, np.int64), lengths, np.arange(3, dtype=np.int32), UNLIMITED)


def test_lengths_beyond_the_data_are_refused() -> None:
    """A length that points behind the memory is an error. Nothing there is read."""
    lengths = np.full(1, 100, np.int32)
    with pytest.raises(ValueError, match="different"):
        copies(b"x", np.zeros(1, np.int64), lengths, np.zeros(1, np.int32), UNLIMITED)


def test_the_corrupt_column_is_counted() -> None:
    """The text of corrupt records takes memory of the budget, beside that of the fields."""
    bad = b"[" + b"x" * 100_000
    data, place = bad + bytes(64), (np.array([0]), np.array([len(bad)], np.int32))
    sizes = []
    for schema in ("id INT", "id INT, _corrupt_record STRING"):
        memory = Counted()
        result: DecodedColumn = decoder(schema).decode(data, *place, memory)
        assert [0] == result.corrupt.tolist()
        sizes.append(memory.size)
    assert sizes[0] + len(bad) <= sizes[1]
