"""Totals: events of several threads, added up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kfetch.fetch.events import BatchSkipped, Decoded
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import Totals


def test_events_of_several_threads_add_up() -> None:
    """Each event counts once, from whatever thread it comes."""
    totals = Totals()
    assert FetchStats() == totals.stats()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(1000):
            pool.submit(totals.add, Decoded(records=2, size=10, seconds=0.5))
            pool.submit(totals.add, BatchSkipped(problem="damaged"))

    assert FetchStats(records=2000, decode_s=500, batches_skipped=1000) == totals.stats()
