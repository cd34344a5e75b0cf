"""Asking for the newest figures: bounded waits, one look at a time, and none that is too old."""

from __future__ import annotations

import threading
import time

import pytest

from kfetch_jobs.util.cached_value import CachedValue


def test_nobody_waits_for_a_look_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks gets the look before, one look at a time is under way, and the next one counts
    again; a look that fails does no harm."""
    monkeypatch.setattr("kfetch_jobs.util.cached_value._FRESH_S", 0.0)
    takes, go = [0], threading.Event()

    def take() -> int:
        if len(takes) == 1:
            assert go.wait(60)
        takes.append(len(takes))
        if len(takes) == 3:
            raise OSError("no more")
        return takes[-1]

    newest = CachedValue(take, 0, "test")
    began = time.monotonic()
    assert all(newest.get(0.02) == 0 for _ in range(3))
    assert time.monotonic() - began < 30
    assert 1 == len(takes)
    go.set()
    assert 1 == newest.get(60)
    assert (1, 3) == (newest.get(60), len(takes))
    assert 3 == newest.get(60)


def test_figures_are_kept_for_a_moment() -> None:
    """Two who ask at once get the same ones; who has changed something gets new ones, also while
    older ones are being taken."""
    begun, go, takes = threading.Event(), threading.Event(), [0]

    def take() -> int:
        begun.set()
        assert go.wait(60)
        takes.append(0)
        return len(takes)

    newest = CachedValue(take, 0, "test")
    assert 0 == newest.get(0.01)
    assert begun.wait(60)
    changed = time.monotonic()
    threading.Timer(0.05, go.set).start()
    assert 3 == newest.get(60, since_s=changed)
    assert 3 == newest.get(60)


def test_a_thread_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of threads, one caller gets the error. A later one gets a new value."""
    takes = iter(range(1, 9))
    newest = CachedValue(lambda: next(takes), 0, "test")
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            newest.get(60)

    assert 1 == newest.get(60)


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
