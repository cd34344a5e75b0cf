"""Totals: counts of several threads, added up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kfetch.fetch.stats import FetchStats, total
from kfetch.fetch.totals import Totals


def test_counts_of_several_threads_add_up() -> None:
    """Each count is added once, from whatever thread it comes."""
    totals = Totals()
    assert FetchStats() == totals.stats()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(1000):
            pool.submit(totals.add, records=2, decode_s=0.5)
            pool.submit(totals.add, batches_skipped=1)

    assert FetchStats(records=2000, decode_s=500, batches_skipped=1000) == totals.stats()


def test_an_unknown_count() -> None:
    """A name that is no field of FetchStats is an error at once, not when somebody asks."""
    with pytest.raises(KeyError, match="rows"):
        Totals().add(rows=1)


def test_the_total_of_several_brokers() -> None:
    """total adds up field by field."""
    parts = [FetchStats(records=2, wait_s=0.5), FetchStats(records=3, sessions_lost=1)]

    assert FetchStats(records=5, wait_s=0.5, sessions_lost=1) == total(parts)
    parts = [FetchStats(undecoded_kinds={"t": {"k": n}}) for n in (1, 2)]
    assert FetchStats(undecoded_kinds={"t": {"k": 3}}) == total(parts)
