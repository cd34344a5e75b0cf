"""Numbers that the compiled loops share with Python."""

from __future__ import annotations

import math

from kfetch.formats.columns import node_table
from kfetch.formats.columns.types import Kind
from kfetch.formats.json.loop_tables import FIVES_FROM, FIVES_TO, POWERS, POWERS_OF_TEN


def test_kinds_have_the_numbers_of_the_loops() -> None:
    """``node_table`` imports nothing, so it repeats the numbers of ``Kind``."""
    assert {kind.name: kind.value for kind in Kind} == {
        kind.name: getattr(node_table, kind.name) for kind in Kind
    }


def test_powers_of_five_have_128_bits() -> None:
    """Each one is the power of five, cut to 128 bits, whose highest bit is set."""
    words = POWERS.view("u8").tolist()[POWERS_OF_TEN:]
    for power, high, low in zip(
        range(FIVES_FROM, FIVES_TO + 1), words[::2], words[1::2], strict=True
    ):
        five = high << 64 | low
        assert five >> 127 == 1
        assert math.isclose(
            math.log2(five) % 1, power * math.log2(5) % 1, abs_tol=1e-9
        ) or math.isclose(abs(math.log2(five) % 1 - power * math.log2(5) % 1), 1, abs_tol=1e-9)
