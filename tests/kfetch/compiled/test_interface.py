"""The numbers of the compiled loops."""

from __future__ import annotations

from kfetch.compiled import interface
from kfetch.records.faults import Fault


def test_interface_repeats_the_fault_numbers() -> None:
    """The fault constants of the compiled loops are the numbers of Fault."""
    expected = {fault.name: fault.value for fault in Fault if fault <= Fault.TIMESTAMP}

    assert expected == {name: getattr(interface, name) for name in expected}
    assert Fault.CRC == interface.CRC_FAULT
