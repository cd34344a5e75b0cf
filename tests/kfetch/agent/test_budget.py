"""The agent's memory budget: reservations, the queue, cached values, decoders."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.agent import budget as module
from kfetch.agent import reply_memory
from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.decoding_memory import DecodingMemory
from kfetch.agent.reply_memory import ReplyMemory
from kfetch.fetch.totals import Totals


@given(sizes=st.lists(st.integers(0, 50), max_size=30))
def test_every_reserved_byte_is_returned(sizes: list[int]) -> None:
    """After every release no byte is in use. The peak was never above the limit."""
    budget = Budget(100)
    reservations: list[Reservation] = []
    for size in sizes:
        reservation = budget.reserve(size, 0)
        if reservation is None:
            reservations.pop().release()
        else:
            reservations.append(reservation)
    peak = budget.peak
    for reservation in reservations:
        reservation.release()

    assert 0 == budget.used
    assert peak <= 100


def test_a_reply_larger_than_the_budget_passes_alone() -> None:
    """A reply of any size fits if no other reply is in memory, and only then."""
    budget = Budget(100)
    alone = budget.reserve(1000, 0)

    assert alone is not None
    assert budget.reserve(1, 0) is None
    alone.release()
    assert budget.reserve(1, 0) is not None


def test_replies_leave_room_for_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many brokers send, three decoders of 10 MiB each run side by side in 256 MiB."""
    monkeypatch.setattr(module, "_processors", lambda: 8)
    budget = Budget(256 << 20)
    replies = 0
    while budget.reserve(budget.reply_bytes_max, 0):
        replies += 1
    decoders = [DecodingMemory(budget, lambda: pytest.fail("it waits")) for _ in range(3)]
    for decoder in decoders:
        decoder.__enter__()
        decoder.reserve(10 << 20)

    assert 7 == replies
    assert budget.used <= budget.limit
    assert not budget.reserve(1 << 20, 0)
    for decoder in decoders:
        decoder.__exit__(None, None, None)
    assert not budget.reserve(1 << 20, 0)


def test_the_last_release_returns_a_shared_reservation() -> None:
    """If three tasks decode a reply, its memory is free after the third one's release. A task that
    releases twice counts once."""
    budget = Budget(100)
    reservation = budget.reserve(60, 0)
    assert reservation
    first, *others = reservation.share(30, 3)
    for release, used in ((first, 30), (first, 30), (others[0], 30), (others[1], 0), (first, 0)):
        release()

        assert used == budget.used


def test_a_reservation_without_holders_is_returned_at_once() -> None:
    """A reply without records holds no memory. Further releases return nothing."""
    budget = Budget(100)
    reservation = budget.reserve(60, 0)
    assert reservation
    assert [] == reservation.share(30, 0)
    assert 0 == budget.used
    reservation.release()

    assert 0 == budget.used


def test_a_release_wakes_a_waiting_request() -> None:
    """reserve() returns soon after the release: not before it, and not only at its timeout."""
    budget = Budget(100)
    first = budget.reserve(90, 0)
    assert first is not None
    began = time.monotonic()
    threading.Timer(0.1, first.release).start()

    assert budget.reserve(50, 60) is not None
    assert 0.05 < time.monotonic() - began < 30


def test_full_segments_let_one_request_pass() -> None:
    """If segments fill the budget, one request may leave, and the next one after its release."""
    budget = Budget(100)
    budget.charge(500)
    first = budget.reserve(50, 0)

    assert first is not None
    assert budget.reserve(1, 0) is None
    first.release()
    assert budget.reserve(1, 0) is not None
    assert 501 == budget.used


def test_a_waiting_request_is_not_overtaken() -> None:
    """A small request does not overtake a large one that came first, until that one leaves."""
    budget = Budget(100)
    held = budget.reserve(60, 0)

    assert budget.reserve(80, 0, "large") is None
    assert budget.reserve(10, 0, "small") is None
    assert budget.has_waiters
    budget.leave_queue("large")
    assert budget.reserve(10, 0, "small") is not None
    assert not budget.has_waiters
    assert held is not None


def test_a_request_without_a_waiter_leaves_the_queue() -> None:
    """A request without a waiter leaves the queue at its timeout."""
    budget = Budget(100)
    budget.reserve(60, 0)

    assert budget.reserve(80, 0) is None
    assert budget.reserve(10, 0) is not None


@pytest.mark.parametrize(("limits", "most"), [([16], 2), ([16, 8192], 64), ([8192, 16], 64)])
def test_how_many_readers_decode_at_once(
    limits: list[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a small limit at most two of many readers decode at once, on 64 processors too. The
    largest limit of all queries counts, whichever came first."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    budget = Budget(limits[0] << 20)
    for limit in limits:
        budget.raise_limit(limit << 20)

    assert most == sum(budget.run_decoder(object(), 0, 0, 0) for _ in range(100))


def test_workers_leave_room() -> None:
    """What workers keep counts up to half of the limit, whatever they say: the agent goes on."""
    budget = Budget(100)
    with budget.reading(40), budget.reading(40):
        assert 50 == budget.used
        assert not budget.needs_free_pages
        assert budget.has_room(50)
    assert 0 == budget.used


@given(
    st.lists(
        st.tuples(st.sampled_from(["cache", "take", "reserve", "release"]), st.integers(0, 60)),
        max_size=40,
    )
)
def test_cached_values_delay_no_request(steps: list[tuple[str, int]]) -> None:
    """With any cached values, a request gets the memory that it would get without them."""
    budget, without_cache = Budget(100), Budget(100)
    pairs: list[tuple[Reservation, Reservation]] = []
    for step, size in steps:
        if step == "cache":
            budget.cache(("me", size % 5), size, None)
        elif step == "take":
            cached = budget.take_cached(("me", size % 5))
            if cached is not None:
                cached[1].release()
        elif step == "release" and pairs:
            for reservation in pairs.pop():
                reservation.release()
        elif step == "reserve":
            one, other = budget.reserve(size, 0), without_cache.reserve(size, 0)

            assert (one is None) == (other is None)
            pairs += [(one, other)] if one and other else []
        assert budget.used <= 100
    for pair in pairs:
        pair[0].release()
    budget.drop_cached("me")

    assert 0 == budget.used


def test_the_wait_of_a_request_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistics have the time that a request waited for memory, after it came. A request that
    gets its memory at once adds nothing."""
    monkeypatch.setattr(reply_memory, "_WAIT_S", 0.05)
    budget, totals = Budget(100), Totals()
    held = budget.reserve(60, 0)
    memory = ReplyMemory(budget, lambda size: memoryview(bytes(size)), totals)
    assert held
    assert not memory.reserve(80)
    held.release()
    assert memory.reserve(80)
    waited_s = totals.stats().starved_s
    memory.release()
    assert memory.reserve(80)

    assert 0.05 <= waited_s == totals.stats().starved_s
