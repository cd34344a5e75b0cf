"""Shared memory segments for decoded batches: the agent writes one, and the worker maps it.

A segment is a memfd. Its descriptor travels to the worker once. Spark has serialised a batch
completely before it asks for the next one, but keeps references: to the previous batch until it has
the next one, and to the first batch of a read until the end. So the worker returns a segment by
message, not by garbage collection. It drops a retired segment, and Python unmaps the segment with
the last reference. The agent returns a retired segment's memory to the system without waiting for
that.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import dataclass

import pyarrow as pa

_SIZE_UNIT = 1 << 20
"""The size of a segment is a multiple of these bytes."""


@dataclass(slots=True)
class Segment:
    """The agent's side of a segment, which holds one record batch at a time."""

    number: int
    descriptor: int
    memory: mmap.mmap
    sent: bool = False
    """Whether the worker has the descriptor."""

    @classmethod
    def create(cls, number: int, size: int) -> Segment:
        """Returns a new segment of at least ``size`` bytes."""
        rounded = -(-size // _SIZE_UNIT) * _SIZE_UNIT
        descriptor = os.memfd_create(f"kfetch-{number}", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, rounded)
            return cls(number, descriptor, mmap.mmap(descriptor, rounded))
        except OSError:
            os.close(descriptor)
            raise

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.memory)

    def write(self, batch: pa.RecordBatch) -> int:
        """Write a batch as an Arrow stream. Returns the stream's size in bytes."""
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(self.memory))
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        size: int = sink.tell()
        sink.close()
        return size

    def erase(self) -> None:
        """Give the memory back to the system. The worker may map it still: its bytes become 0."""
        with contextlib.suppress(OSError):  # a sandbox without it: the last unmapping returns it
            self.memory.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Close this side. The system frees the memory when the worker has no mapping either."""
        os.close(self.descriptor)
        with contextlib.suppress(BufferError):  # the error of a write still refers to it
            self.memory.close()


def stream_size(batch: pa.RecordBatch) -> int:
    """Returns the bytes that a batch takes as an Arrow stream."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    size: int = sink.size()
    return size


def map_segment(descriptor: int) -> pa.Buffer:
    """The worker's side: map a segment, read-only, until the last reference to the buffer ends.

    Closes the descriptor.
    """
    try:
        size = os.fstat(descriptor).st_size
        return pa.py_buffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
    finally:
        os.close(descriptor)


def read_batch(memory: pa.Buffer, size: int) -> pa.RecordBatch:
    """Returns the record batch in a segment, without a copy. Valid until the segment's release."""
    return pa.ipc.open_stream(memory.slice(0, size)).read_next_batch()
