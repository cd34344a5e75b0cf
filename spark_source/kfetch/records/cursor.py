"""A position in the records of a batch, with every step checked.

Varints are zigzag, seven bits a byte (kafka.apache.org/documentation/#recordbatch). The cursor
never passes ``end``, and the meaning of the fields is the caller's.
"""

from __future__ import annotations

from kfetch.model import TopicPartition
from kfetch.records.faults import Fault, failure


class Cursor:
    """Reads forward from the first byte of ``data`` and cannot pass ``end``."""

    def __init__(self, data: memoryview, tp: TopicPartition, base_offset: int) -> None:
        self.data = data
        self.tp = tp
        self.base_offset = base_offset
        self.record = 0
        """Number of the current record, for errors."""
        self.at = 0
        self.end = len(data)

    def fail(self, fault: Fault, detail: str = "") -> Exception:
        """Returns the error for a fault at the current record."""
        return failure(fault, self.tp, self.base_offset, self.record, detail)

    def byte(self) -> int:
        """Reads one byte."""
        if self.at >= self.end:
            raise self.fail(Fault.ENDS_EARLY)
        self.at += 1
        return self.data[self.at - 1]

    def varint(self, bits: int = 32) -> int:
        """Reads a zigzag varint, seven bits a byte, low ones first. ``bits``: its type's width."""
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
        """Reads a length and that many bytes; None for length -1."""
        length = self.varint()
        if length < -1 or length > self.end - self.at:
            raise self.fail(fault)
        if length < 0:
            return None
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def enter_record(self) -> None:
        """Reads the record's length and limits the cursor to the record."""
        if self.at == self.end:
            raise self.fail(Fault.MISSING)
        length = self.varint()
        if not 0 <= length <= self.end - self.at:
            raise self.fail(Fault.RECORD_LENGTH)
        self.end = self.at + length

    def skip_record(self) -> None:
        """Passes a whole record."""
        self.enter_record()
        self.at = self.end
        self.leave_record()

    def leave_record(self) -> None:
        """Ends the limit of ``enter_record``. The caller must have read the whole record."""
        if self.at != self.end:
            raise self.fail(Fault.RECORD_SIZE)
        self.end = len(self.data)
