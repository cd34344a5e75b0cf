"""The agent's memory: the budget, shared segments, the channel that carries them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.channel import AskStatus, Channel, Gone, Hello, Hung, peer_uid
from kfetch.agent.segments import Segment, batch_in, mapped, stream_size
from kfetch.errors import AgentError

BATCH = pa.record_batch({"n": pa.array(range(1000)), "s": pa.array(["x"] * 1000)})


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    """Two ends of one channel."""
    left, right = (Channel(end, 5.0) for end in socket.socketpair(socket.AF_UNIX))
    yield left, right
    left.close()
    right.close()


@given(sizes=st.lists(st.integers(0, 50), max_size=30))
def test_what_is_taken_is_given_back(sizes: list[int]) -> None:
    """After every release nothing is in use, and never more than the limit was, but for one."""
    budget = Budget(100)
    held: list[Reservation] = []
    for size in sizes:
        taken = budget.reserve(size, 0)
        if taken is None:
            held.pop().release()
        else:
            held.append(taken)
    peak = budget.peak
    for reservation in held:
        reservation.release()

    assert 0 == budget.used
    assert peak <= 100


def test_a_reply_larger_than_the_budget_passes_alone() -> None:
    """With nothing in use any size fits; with something in use it does not."""
    budget = Budget(100)
    alone = budget.reserve(1000, 0)

    assert alone is not None
    assert budget.reserve(1, 0) is None
    alone.release()
    assert budget.reserve(1, 0) is not None


def test_a_shared_reservation_ends_with_its_last_holder() -> None:
    """Memory of a reply that three tasks decode is free when the third is done."""
    budget = Budget(100)
    reservation = budget.charge(60)
    reservation.resize(30)
    reservation.share(3)
    for used in (30, 30, 0):
        reservation.release()

        assert used == budget.used


def test_a_reservation_that_nobody_shares_is_free_at_once() -> None:
    """A reply without records keeps no memory."""
    budget = Budget(100)
    budget.charge(60).share(0)

    assert 0 == budget.used


def test_a_waiting_fetch_goes_on_when_memory_comes_back() -> None:
    """reserve() wakes up on a release, long before its time is over and not before it."""
    budget = Budget(100)
    first = budget.reserve(90, 0)
    assert first is not None
    threading.Timer(0.1, first.release).start()
    began = time.monotonic()

    assert budget.reserve(50, 30) is not None
    assert 0.05 < time.monotonic() - began < 5


def test_segments_never_keep_a_fetch_from_passing() -> None:
    """A budget full of segments lets one fetch pass, and the next only when that is done."""
    budget = Budget(100)
    budget.charge(500)
    first = budget.reserve(50, 0)

    assert first is not None
    assert budget.reserve(1, 0) is None
    first.release()
    assert budget.reserve(1, 0) is not None
    assert 501 == budget.used


def test_who_waits_for_memory_is_not_overtaken() -> None:
    """A small request does not pass a large one that came first, until that one leaves."""
    budget = Budget(100)
    held = budget.reserve(60, 0)

    assert budget.reserve(80, 0, "large") is None
    assert budget.reserve(10, 0, "small") is None
    assert budget.short
    budget.leave("large")
    assert budget.reserve(10, 0, "small") is not None
    assert not budget.short
    assert held is not None


def test_a_request_without_a_name_keeps_no_place() -> None:
    """Who gave up waiting anonymously stands in nobody's way."""
    budget = Budget(100)
    budget.reserve(60, 0)

    assert budget.reserve(80, 0) is None
    assert budget.reserve(10, 0) is not None


def test_a_batch_travels_through_shared_memory(pair: tuple[Channel, Channel]) -> None:
    """What is written into a segment is mapped and read at the other end of a channel."""
    agent, worker = pair
    segment = Segment.create(1, stream_size(BATCH))
    size = segment.write(BATCH)
    agent.send(AskStatus(), [segment.descriptor])
    message, descriptors = worker.receive()
    found = batch_in(mapped(descriptors[0]), size)

    assert AskStatus() == message
    assert stream_size(BATCH) == size
    assert BATCH == found
    del found
    segment.close()


def test_a_batch_is_mapped_not_copied() -> None:
    """The batch that a worker reads changes with the segment: it is the same memory."""
    segment = Segment.create(1, stream_size(BATCH))
    size = segment.write(BATCH)
    found = batch_in(mapped(os.dup(segment.descriptor)), size)
    other = pa.record_batch({"n": pa.array(range(1, 1001)), "s": pa.array(["y"] * 1000)})
    segment.write(other)

    assert other == found
    segment.close()


def test_descriptors_do_not_pile_up() -> None:
    """A thousand segments, written, mapped and closed, leave no descriptor open."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(1000):
        segment = Segment.create(number, 100)
        mapped(os.dup(segment.descriptor))
        segment.close()

    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_messages_of_any_size_arrive_whole(pair: tuple[Channel, Channel]) -> None:
    """A message larger than the socket's buffer is put together again."""
    left, right = pair
    large = Hello(version="x" * 3_000_000, pid=1)
    sender = threading.Thread(target=left.send, args=(large,))
    sender.start()

    assert (large, []) == right.receive()
    sender.join()


def test_a_closed_channel_is_gone(pair: tuple[Channel, Channel]) -> None:
    """The end of the other side is an error of its own, for receiving and for sending."""
    left, right = pair
    left.close()

    with pytest.raises(Gone):
        right.receive()
    with pytest.raises(Gone):
        right.send(AskStatus())


def test_silence_is_hung() -> None:
    """A wait for a message ends with its time."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs, pytest.raises(Hung):
        Channel(ours, 0.01).receive()
    ours.close()


def test_a_frame_has_a_limit() -> None:
    """A length that no message has is refused before memory is taken."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.sendall(b"\xff\xff\xff\xff")
    with theirs, pytest.raises(AgentError, match="larger than"):
        Channel(ours, 5).receive()
    ours.close()


def test_the_peer_is_known() -> None:
    """The kernel tells who is at the other end."""
    left, right = socket.socketpair(socket.AF_UNIX)

    with left, right:
        assert os.getuid() == peer_uid(left)
