"""Shared memory segments: a batch travels in one, without a copy."""

from __future__ import annotations

import gc
import mmap
import os
import resource
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from kfetch.agent.channel import Channel, StatusRequest
from kfetch.agent.segments import Segment, map_segment, read_batch, stream_size

BATCH = pa.record_batch({"n": pa.array(range(1000)), "s": pa.array(["x"] * 1000)})


def _descriptors() -> int:
    """Returns how many descriptors of segments are open. Threads of other tests open sockets."""
    gc.collect()
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this list
            links.append(os.readlink(descriptor))
    return sum(link.startswith("/memfd:kfetch-") for link in links)


def test_a_batch_travels_through_shared_memory(channels: tuple[Channel, Channel]) -> None:
    """The worker reads the batch that the agent wrote into a segment, by its descriptor."""
    worker, agent = channels
    segment = Segment.create(1, stream_size(BATCH))
    size = segment.write(BATCH)
    agent.send(StatusRequest(), [segment.descriptor])
    message, descriptors = worker.receive()
    batch = read_batch(map_segment(descriptors[0]), size)

    assert StatusRequest() == message
    assert stream_size(BATCH) == size
    assert BATCH == batch
    del batch
    segment.close()


def test_a_batch_is_mapped_not_copied() -> None:
    """The worker's batch is the segment's memory: it changes when the agent writes again."""
    segment = Segment.create(1, stream_size(BATCH))
    size = segment.write(BATCH)
    batch = read_batch(map_segment(os.dup(segment.descriptor)), size)
    other = pa.record_batch({"n": pa.array(range(1, 1001)), "s": pa.array(["y"] * 1000)})
    segment.write(other)

    assert other == batch
    segment.close()


def test_descriptors_do_not_pile_up() -> None:
    """A thousand segments that were created, mapped and closed leave no descriptor open."""
    before = _descriptors()
    for number in range(1000):
        segment = Segment.create(number, 100)
        map_segment(os.dup(segment.descriptor))
        segment.close()

    assert before == _descriptors()


def test_a_failed_write_leaves_no_descriptor() -> None:
    """A segment can be closed although the error of its last write still refers to its memory."""
    before = _descriptors()
    segment = Segment.create(1, 100)
    with pytest.raises(OSError, match="Write out of bounds") as failure:
        segment.write(pa.record_batch({"s": pa.array(["x" * (3 << 20)])}))
    segment.close()
    del failure, segment

    assert before == _descriptors()


def test_a_segment_that_fails_leaves_no_descriptor() -> None:
    """Without address space, neither side of a segment keeps its descriptor."""
    segment = Segment.create(1, 64 << 20)
    before = _descriptors()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), limits[1]))
    try:
        with pytest.raises(OSError, match="Cannot allocate memory"):
            Segment.create(2, 64 << 20)
        with pytest.raises(OSError, match="Cannot allocate memory"):
            map_segment(os.dup(segment.descriptor))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)

    assert before == _descriptors()
    segment.close()


def test_a_file_that_may_not_grow_leaves_no_descriptor() -> None:
    """A limit on the size of files also limits segments. A refused one keeps no descriptor."""
    before = _descriptors()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            Segment.create(1, 64 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert before == _descriptors()
