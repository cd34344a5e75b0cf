"""The columns beyond the connector's: off unless asked for, null where there is nothing."""

from __future__ import annotations

import itertools

import pytest

from kfetch.records import Columns, schema_of
from kfetch.records.sections import sections
from tests.kfetch.decoders import DECODERS
from tests.kfetch.records.batch_builder import batch, make_slice, record
from tests.kfetch.records.legacy_builder import message

DATA = (
    message(0, b"old", b"k", magic=0)
    + batch(record(key=None, value=b""), record(1, None, b"key"), base=1, epoch=3)
    + batch(record(value=b"x" * 300), base=3, epoch=4)
    + batch(record(), base=4, epoch=-1)
)


@pytest.mark.parametrize("name", ["reference", "kernel"])
def test_leader_epochs_and_sizes(name: str) -> None:
    """Each row has its batch's epoch, null where it is -1, and the bytes of its key and value."""
    columns = Columns(leader_epoch=True, serialized_sizes=True)
    decoded = DECODERS[name].decode(
        sections([make_slice(DATA, 0, 5)], check_crcs=True), columns=columns
    )

    assert decoded is not None
    decoded.validate(full=True)
    assert schema_of(columns) == decoded.schema
    assert [None, 3, 3, 4, None] == decoded.column("leaderEpoch").to_pylist()
    assert [1, None, 3, None, None] == decoded.column("serializedKeySize").to_pylist()
    assert [3, 0, None, 300, 1] == decoded.column("serializedValueSize").to_pylist()


@pytest.mark.parametrize("columns_on", list(itertools.product([False, True], repeat=3)))
def test_the_seven_are_always_there(columns_on: tuple[bool, bool, bool]) -> None:
    """What is asked for comes behind the seven, in one order, and both decoders agree."""
    columns, in_range = Columns(*columns_on), sections([make_slice(DATA)], check_crcs=True)
    theirs, ours = (DECODERS[n].decode(in_range, columns=columns) for n in ("reference", "kernel"))

    assert theirs is not None
    assert theirs.equals(ours)
    named = ["headers", "leaderEpoch", "serializedKeySize", "serializedValueSize"]
    flags = (columns_on[0], columns_on[1], columns_on[2], columns_on[2])
    assert [n for n, flag in zip(named, flags, strict=True) if flag] == theirs.schema.names[7:]
