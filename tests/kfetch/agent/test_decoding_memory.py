"""Decoders under one budget: each reserves memory before it uses it, and one may always go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from kfetch.agent import decoding_memory
from kfetch.agent.budget import Budget
from kfetch.agent.channel import ChannelClosed
from kfetch.agent.decoding_memory import DecodingMemory
from tests.kfetch.agent.helpers import wait_until

MIB = 1 << 20
LIMIT = 64 * MIB


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Budget:
    """A budget of 64 MiB on two processors. Waiting decoders look at their workers often."""
    monkeypatch.setattr("kfetch.agent.budget._processors", lambda: 2)
    monkeypatch.setattr(decoding_memory, "_WORKER_CHECK_S", 0.01)
    return Budget(LIMIT)


def nothing() -> None:
    """A worker that is there."""


class Decoder(threading.Thread):
    """A decoder that reserves sizes one after the other, and ends when it is let go."""

    def __init__(
        self,
        budget: Budget,
        *sizes: int,
        check_worker: Callable[[], None] = nothing,
        barrier: threading.Barrier | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.memory = DecodingMemory(budget, check_worker)
        self.reserved = 0
        self.error: Exception | None = None
        self.go_on = threading.Event()
        self._sizes = sizes
        self._barrier = barrier or threading.Barrier(1)
        self.start()

    def run(self) -> None:
        try:
            with self.memory:
                for size in self._sizes:
                    self.memory.reserve(size)
                    self.reserved += size
                    if size == self.reserved:  # the first
                        self._barrier.wait(60)
                self.go_on.wait(60)
        except ChannelClosed as error:
            self.error = error

    def end(self) -> None:
        """Let it return its memory."""
        self.go_on.set()
        self.join(60)


def test_memory_is_counted_before_its_use(budget: Budget) -> None:
    """What a decoder reserves is in use until it ends, or until it releases it."""
    memory = DecodingMemory(budget, nothing)
    with memory:
        memory.reserve(5 * MIB)
        memory.reserve(7 * MIB)
        memory.release(5 * MIB)
        assert 7 * MIB == budget.used
    assert 0 == budget.used
    assert 12 * MIB == budget.peak


def test_a_decoder_waits_for_memory(budget: Budget) -> None:
    """What does not fit waits until another decoder ends. Meanwhile no request takes the memory."""
    reply = budget.reserve(MIB, 0)
    first = Decoder(budget, 40 * MIB)
    assert wait_until(lambda: bool(first.reserved))
    second = Decoder(budget, 30 * MIB)
    assert wait_until(lambda: budget.has_waiters)

    assert 0 == second.reserved
    assert budget.reserve(1, 0) is None
    first.end()
    assert wait_until(lambda: bool(second.reserved))
    second.end()
    assert reply is not None
    assert MIB == budget.used


def test_a_full_budget_lets_one_decoder_pass(budget: Budget) -> None:
    """If segments and replies fill the budget, decoders go on one after the other."""
    segments = budget.charge(LIMIT)
    decoders = [Decoder(budget, 2 * MIB, 2 * MIB) for _ in range(4)]
    with ExitStack() as stack:
        for decoder in decoders:
            stack.callback(decoder.end)
        while pending := [d for d in decoders if d.is_alive()]:
            assert wait_until(lambda pending=pending: any(d.reserved == 4 * MIB for d in pending))
            next(d for d in pending if d.reserved == 4 * MIB).end()

    assert LIMIT + 4 * MIB == budget.peak
    segments.release()
    assert 0 == budget.used


def test_decoders_that_hold_memory_do_not_block_each_other(budget: Budget) -> None:
    """Two decoders have memory, and both need more than there is. One goes on, then the other."""
    both = threading.Barrier(2)
    decoders = [Decoder(budget, 30 * MIB, 30 * MIB, barrier=both) for _ in range(2)]
    assert wait_until(lambda: any(d.reserved == 60 * MIB for d in decoders))
    ahead, behind = sorted(decoders, key=lambda d: -d.reserved)

    assert (60 * MIB, 30 * MIB) == (ahead.reserved, behind.reserved)
    ahead.end()
    assert wait_until(lambda: behind.reserved == 60 * MIB)
    behind.end()
    assert 90 * MIB == budget.peak
    assert 0 == budget.used


def test_the_end_of_a_decoder_wakes_the_next(
    budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder that waits for a processor goes on at once when another one ends, also if that one
    had no memory."""
    monkeypatch.setattr(decoding_memory, "_WORKER_CHECK_S", 30.0)
    running = [Decoder(budget), Decoder(budget)]
    assert wait_until(lambda: budget._decoders_running == 2)
    last = Decoder(budget, MIB)
    assert wait_until(lambda: bool(budget._queue))
    # Its first look at its worker is over, so only the end of another decoder wakes it.
    assert not wait_until(lambda: bool(last.reserved), 0.05)
    running[0].end()

    assert wait_until(lambda: bool(last.reserved))
    last.end()
    running[1].end()


def test_one_oversized_batch_at_a_time(budget: Budget) -> None:
    """While one reader has a batch of more than its share in a segment, no other reader unpacks
    such a batch. Small batches go on."""
    small_segments = [budget.charge(8 * MIB) for _ in range(8)]
    segment = budget.charge(100 * MIB)
    large = Decoder(budget, 100 * MIB)
    assert wait_until(lambda: budget.has_waiters)
    small = Decoder(budget, 4 * MIB)
    assert wait_until(lambda: bool(small.reserved))
    small.end()

    assert 0 == large.reserved
    segment.release()
    assert wait_until(lambda: bool(large.reserved))
    large.end()
    assert LIMIT == budget.used
    assert small_segments


def test_a_decoder_that_waits_for_a_segment_delays_no_request(budget: Budget) -> None:
    """A slow sink may keep an oversized segment for minutes. Requests and decoders go on, and the
    agent still closes free segments for the decoder that waits."""
    reply = budget.reserve(MIB, 0)
    segment = budget.charge(50 * MIB)
    large = Decoder(budget, 100 * MIB)
    assert wait_until(lambda: budget.has_waiters)
    other = budget.reserve(MIB, 0)
    assert other is not None
    assert budget.has_waiters

    segment.release()
    assert wait_until(lambda: bool(large.reserved))
    large.end()
    assert reply is not None


@pytest.mark.parametrize("sizes", [(), (MIB,)], ids=["for a processor", "for memory"])
def test_a_decoder_whose_worker_has_gone_stops_waiting(
    budget: Budget, sizes: tuple[int, ...]
) -> None:
    """A decoder that waits for a processor or for memory notices that its worker has closed its
    channel. It leaves the queue, and the next decoder is not blocked."""
    others = [Decoder(budget, LIMIT), *([] if sizes else [Decoder(budget)])]
    assert wait_until(lambda: bool(others[0].reserved))
    assert wait_until(lambda: budget._decoders_running == len(others))

    def gone() -> None:
        raise ChannelClosed("the worker has closed its channel")

    orphan = Decoder(budget, *sizes, check_worker=gone)
    orphan.join(60)
    for other in others:
        other.end()
    last = Decoder(budget, LIMIT)

    assert isinstance(orphan.error, ChannelClosed)
    assert wait_until(lambda: bool(last.reserved))
    last.end()
    assert (0, 0) == (budget.used, budget._decoders_running)


def test_an_idle_decoder_lets_one_request_leave(budget: Budget) -> None:
    """While a decoder waits for another service, its replies count as none. One request at a time
    may leave, and other decoders run. Later the replies count again."""
    reply = budget.reserve(LIMIT, 0)
    memory, other = DecodingMemory(budget, nothing), DecodingMemory(budget, nothing)
    assert reply
    with memory:
        memory.reserve(MIB)
        assert budget.reserve(MIB, 0) is None
        with memory.idle():
            first = budget.reserve(MIB, 0)
            assert first
            assert budget.reserve(MIB, 0) is None
            first.release()
            with other:
                other.reserve(MIB)
            assert budget.reserve(MIB, 0)
    assert budget.reserve(MIB, 0) is None
    reply.release()


def test_a_worker_that_leaves_an_idle_decoder(budget: Budget) -> None:
    """A decoder whose worker has gone while it was idle leaves its slot and its memory."""

    def gone() -> None:
        raise ChannelClosed("gone")

    def idle_until_gone(running: ExitStack) -> None:
        with DecodingMemory(budget, gone) as memory:
            memory.reserve(MIB)
            with memory.idle():
                for _ in range(2):  # the others have both slots
                    running.enter_context(DecodingMemory(budget, nothing))

    with ExitStack() as running, pytest.raises(ChannelClosed):
        idle_until_gone(running)
    assert (0, 0) == (budget.used, budget._decoders_running)
