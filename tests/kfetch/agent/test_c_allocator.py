"""Freed memory goes back to the system while memory is short."""

from __future__ import annotations

import pytest

from kfetch.agent import c_allocator
from kfetch.agent.budget import Budget
from kfetch.agent.decoding_memory import DecodingMemory


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of malloc_trim."""
    calls: list[int] = []
    monkeypatch.setattr(c_allocator, "_malloc_trim", lambda pad: calls.append(pad.value))
    monkeypatch.setattr(c_allocator, "_next_at", 0.0)
    return calls


def test_calls_have_a_pause(trims: list[int]) -> None:
    """Many decoders that end at once cause one call."""
    for _ in range(5):
        c_allocator.return_freed_memory()
    assert [0] == trims


def test_a_library_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """musl has no malloc_trim: that is no error."""
    monkeypatch.setattr(c_allocator, "_malloc_trim", None)
    monkeypatch.setattr(c_allocator, "_next_at", 0.0)
    c_allocator.return_freed_memory()


@pytest.mark.parametrize("waits", [True, False])
def test_only_while_memory_is_short(trims: list[int], waits: bool) -> None:
    """A decoder that ends while others wait for memory causes a call, another one does not."""
    budget = Budget(1 << 20)
    with DecodingMemory(budget, lambda: None):
        if waits:
            budget.reserve(1 << 20, 0)  # the one that may always leave
            budget.reserve(1 << 20, 0, waiter="request")
    assert waits == bool(trims)
