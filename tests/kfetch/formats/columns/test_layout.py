"""Numbers that the compiled loops share with Python."""

from __future__ import annotations

import math

from kfetch.formats.avro import layout as avro_layout
from kfetch.formats.columns import layout
from kfetch.formats.columns.types import Kind
from kfetch.formats.json.powers import POWERS
from kfetch.formats.protobuf import layout as protobuf_layout


def test_kinds_have_the_numbers_of_the_loops() -> None:
    """``layout`` imports nothing, so it repeats the numbers of ``Kind``."""
    assert {kind.name: kind.value for kind in Kind} == {
        kind.name: getattr(layout, kind.name) for kind in Kind
    }


def test_the_states_of_all_loops_begin_alike() -> None:
    """``LoopCall`` reads the number of corrupt records at one place, whatever the format."""
    names = ("RECORD", "STUCK_NODE", "CORRUPT")
    for other in (avro_layout, protobuf_layout):
        assert [getattr(layout, name) for name in names] == [getattr(other, name) for name in names]


def test_powers_of_five_have_128_bits() -> None:
    """Each one is the power of five, cut to 128 bits, whose highest bit is set."""
    words = POWERS.view("u8").tolist()[layout.POWERS_OF_TEN :]
    for power, high, low in zip(
        range(layout.FIVES_FROM, layout.FIVES_TO + 1), words[::2], words[1::2], strict=True
    ):
        five = high << 64 | low
        assert five >> 127 == 1
        assert math.isclose(
            math.log2(five) % 1, power * math.log2(5) % 1, abs_tol=1e-9
        ) or math.isclose(abs(math.log2(five) % 1 - power * math.log2(5) % 1), 1, abs_tol=1e-9)
