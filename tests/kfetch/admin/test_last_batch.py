"""The last micro-batch in a store by few requests: the same one as by the whole list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from kfetch.admin import checkpoint
from kfetch.storage import objects
from kfetch.storage.objects import ObjectPath

PAGE = 60
PLAN = b'v1\n{}\n{"version": 1, "topics": {}}'


class CountingStore:
    """Objects in memory. Counts the pages that it lists."""

    def __init__(self) -> None:
        self.pages = 0
        self._store = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def fill(self, log: str, numbers: range | set[int]) -> None:
        for number in numbers:
            self._store.put(f"ck/{log}/{number}", PLAN)

    def list(self, *args: Any, **named: Any) -> Any:
        self.pages += 1
        return self._store.list(*args, **named)

    def list_with_delimiter(self, prefix: str) -> Any:
        listed = self._store.list_with_delimiter(prefix)
        self.pages += 1 + len(listed["objects"]) // PAGE
        return listed


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_LISTED_MAX", PAGE)
        yield


def numbers(path: ObjectPath, near: int | None) -> tuple[int | None, int | None, int | None]:
    """The last commit, the last plan, and the plan before a pending one."""
    read = checkpoint.read_checkpoint(path, near=near)
    planned, before = read.planned, read.before
    return read.committed, planned and planned.number, before and before.number


@given(
    first=st.sampled_from([0, 1, 7, 95, 998, 9_990]) | st.integers(0, 3_000),
    count=st.integers(1, 150),
    pending=st.booleans(),
    near=st.integers(-10, 160),
    removed=st.sets(st.integers(0, 99), max_size=9),
)
def test_any_hint(first: int, count: int, pending: bool, near: int, removed: set[int]) -> None:
    """A hint may be stale, too high, or of a micro-batch that Spark has removed or is removing.

    So there may be gaps, also where the numbers get a digit more.
    """
    store = CountingStore()
    last = first + count
    gaps = {first + number for number in removed}
    there = set(range(first, last)) - gaps | {last}
    store.fill("commits", there)
    store.fill("offsets", there | {last + 1} if pending else there)
    path = ObjectPath("s3a://lake", "ck", store)
    expected = numbers(path, None)
    pages, store.pages = store.pages, 0

    assert expected == numbers(path, first + near)
    assert store.pages <= pages + 10


@given(first=st.integers(0, 20_000), count=st.integers(100, 200), late=st.integers(0, 3))
def test_a_good_hint(first: int, count: int, late: int) -> None:
    """Each log takes a list, and up to two more where the numbers get a digit more. ``sources``
    takes one."""
    store = CountingStore()
    last = first + count
    store.fill("commits", range(first, last + 1))
    store.fill("offsets", range(first, last + 2))

    assert (last, last + 1, last) == numbers(ObjectPath("s3a://lake", "ck", store), last - late)
    assert store.pages <= 3 + 4 * (len(str(last + 102)) > len(str(last - late)))


def test_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,001 micro-batches the commits take two lists, because of the new digit."""
    monkeypatch.setattr(objects, "_LISTED_MAX", 1000)
    store = CountingStore()
    for log in ("commits", "offsets"):
        store.fill(log, range(10_001))

    assert (10_000, 10_000, None) == numbers(ObjectPath("s3a://lake", "ck", store), 9_998)
    assert 4 == store.pages
