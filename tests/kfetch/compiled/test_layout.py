"""The numbers of the compiled loops."""

from __future__ import annotations

from kfetch.compiled import layout
from kfetch.records.faults import Fault


def test_layout_repeats_the_fault_numbers() -> None:
    """The fault constants of the compiled loops are the numbers of Fault."""
    expected = {fault.name: fault.value for fault in Fault if fault <= Fault.TIMESTAMP}

    assert expected == {name: getattr(layout, name) for name in expected}
    assert Fault.CRC == layout.CRC_FAULT
