"""A position in a batch's records, every step checked: what the decoders' reference reads with.

Varints are zigzag, seven bits a byte (kafka.apache.org/documentation/#recordbatch). It refuses to
pass ``end`` and to know what a field means.
"""

from __future__ import annotations

from kfetch.model import TopicPartition
from kfetch.records.faults import Fault, failure

__all__ = ["Cursor"]


class Cursor:
    """Reads forward from the first byte of ``data`` and cannot pass ``end``."""

    def __init__(self, data: memoryview, tp: TopicPartition, base_offset: int) -> None:
        self.data = data
        self.tp = tp
        self.base_offset = base_offset
        self.record = 0
        """Number of the record that is being read, for errors."""
        self.at = 0
        self.end = len(data)

    def fail(self, fault: Fault, detail: str = "") -> Exception:
        """The error for a fault at the current record."""
        return failure(fault, self.tp, self.base_offset, self.record, detail)

    def byte(self) -> int:
        """One byte."""
        if self.at >= self.end:
            raise self.fail(Fault.ENDS_EARLY)
        self.at += 1
        return self.data[self.at - 1]

    def varint(self, bits: int = 32) -> int:
        """Zigzag, seven bits per byte, low ones first; ``bits`` is the width of its type."""
        raw = shift = 0
        while True:
            byte = self.byte()
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise self.fail(Fault.OVERLONG)
        if raw >> bits:
            raise self.fail(Fault.OVERLONG)
        return (raw >> 1) ^ -(raw & 1)

    def blob(self, fault: Fault) -> bytes | None:
        """Bytes behind their length; None for -1."""
        length = self.varint()
        if length < -1 or length > self.end - self.at:
            raise self.fail(fault)
        if length < 0:
            return None
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def enter_record(self) -> None:
        """Read the record's length and narrow the cursor to it."""
        if self.at == self.end:
            raise self.fail(Fault.MISSING)
        length = self.varint()
        if not 0 <= length <= self.end - self.at:
            raise self.fail(Fault.RECORD_LENGTH)
        self.end = self.at + length

    def leave_record(self) -> None:
        """Widen the cursor to the whole section; the record must have been read to its end."""
        if self.at != self.end:
            raise self.fail(Fault.RECORD_SIZE)
        self.end = len(self.data)
