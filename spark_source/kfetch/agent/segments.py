"""Shared memory for decoded batches: the agent writes, the worker maps, nothing is copied twice.

A segment is a memfd whose descriptor travels to the worker once. Spark has serialised a batch
completely before it asks for the next one, but keeps references to it, so a mapping is never closed
on purpose and memory is given back by message, not by garbage collection.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import pyarrow as pa

_ROUND = 1 << 20


@dataclass(slots=True)
class Segment:
    """A piece of shared memory that holds one record batch at a time. The agent's side."""

    number: int
    descriptor: int
    memory: mmap.mmap
    sent: bool = False
    """Whether the worker has the descriptor."""

    @classmethod
    def create(cls, number: int, size: int) -> Segment:
        """A segment of at least ``size`` bytes."""
        rounded = -(-size // _ROUND) * _ROUND
        descriptor = os.memfd_create(f"kfetch-{number}", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, rounded)
        return cls(number, descriptor, mmap.mmap(descriptor, rounded))

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.memory)

    def write(self, batch: pa.RecordBatch) -> int:
        """Put a batch into the memory as an Arrow stream; its size in bytes."""
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(self.memory))
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        size: int = sink.tell()
        sink.close()
        return size

    def close(self) -> None:
        """Give the memory back to the system once the worker has let it go too."""
        self.memory.close()
        os.close(self.descriptor)


def stream_size(batch: pa.RecordBatch) -> int:
    """Bytes that a batch takes as an Arrow stream."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    size: int = sink.size()
    return size


def mapped(descriptor: int) -> pa.Buffer:
    """The worker's side: a segment's memory, read-only. Closes the descriptor, not the mapping."""
    size = os.fstat(descriptor).st_size
    memory = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    os.close(descriptor)
    return pa.py_buffer(memory)


def batch_in(memory: pa.Buffer, size: int) -> pa.RecordBatch:
    """The record batch in a segment, without copying; valid until the segment is released."""
    return pa.ipc.open_stream(memory.slice(0, size)).read_next_batch()
