"""Freed memory goes back to the system while memory is short, and when nobody reads any more."""

from __future__ import annotations

import pytest

from kfetch.agent import freed_memory
from kfetch.agent.budget import Budget
from kfetch.agent.channel import ReadRequest
from kfetch.agent.decoding_memory import DecodingMemory
from kfetch.agent.server import OpenQueries, Server
from kfetch.errors import AgentError
from kfetch.spark import options as parsing

REQUEST = ReadRequest(
    query="q",
    options=parsing.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}),
    ranges=(),
)


class _Pool:
    """Arrow's pool, whose calls are counted."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def release_unused(self) -> None:
        self._calls.append("arrow")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The allocators that returned their free pages."""
    found: list[str] = []
    monkeypatch.setattr(freed_memory, "_malloc_trim", lambda _: found.append("c"))
    monkeypatch.setattr(freed_memory.pa, "default_memory_pool", lambda: _Pool(found))
    monkeypatch.setattr(freed_memory, "_next_at", 0.0)
    return found


def test_calls_have_a_pause(calls: list[str]) -> None:
    """Many decoders that end at once cause one call. The end of the last read causes another."""
    for _ in range(5):
        freed_memory.return_freed_memory()
    assert ["arrow", "c"] == calls
    freed_memory.return_freed_memory(is_idle=True)
    assert ["arrow", "c"] * 2 == calls


def test_a_library_without_malloc_trim(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """musl has no malloc_trim: that is no error."""
    monkeypatch.setattr(freed_memory, "_malloc_trim", None)
    freed_memory.return_freed_memory()
    assert ["arrow"] == calls


@pytest.mark.parametrize(
    ("used", "waits"), [(0, False), (1 << 18, False), (1 << 19, False), (1 << 20, True)]
)
def test_only_while_memory_is_short(calls: list[str], used: int, waits: bool) -> None:
    """A decoder that ends causes a call if others wait for memory, or if much of it is in use."""
    budget = Budget(1 << 20)
    with DecodingMemory(budget, lambda: None):
        budget.reserve(used, 0)
        if waits:
            budget.reserve(1 << 20, 0, waiter="request")
    assert (used > 1 << 18) == bool(calls)


@pytest.mark.parametrize("readers", [0, 1])
def test_the_last_reader_returns_it(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    """While another task reads, its next batch needs the pages."""
    budget = Budget(1 << 20)
    budget.readers = readers

    def refuse(queries: OpenQueries, request: ReadRequest) -> None:
        raise AgentError("another user")

    monkeypatch.setattr(OpenQueries, "reading", refuse)
    with pytest.raises(AgentError):
        Server(OpenQueries(budget))._send_batches(REQUEST, None)  # type: ignore[arg-type]

    assert (["arrow", "c"] if not readers else []) == calls
