"""Sums that only grow."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.metrics.growth import GrowingSums
from tests.examples import examples


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=30),
)
@examples(30)
def test_sums_only_grow(steps: list[tuple[str, int, bool]]) -> None:
    """The increase of each part counts once, even if the part restarts with lower totals."""
    growth, now, added = GrowingSums(), Counter[str](), 0
    for part, more, anew in steps:
        anew = anew and more < now[part]
        now[part] = more if anew else now[part] + more
        added += more
        growth.update("g", part, {"n": now[part]})

        assert added == growth.sums("g").get("n", 0)


def test_sums_begin_where_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier totals do not count. With too many parts, the one with the oldest update is
    forgotten."""
    monkeypatch.setattr("kfetch_jobs.metrics.growth._PARTS_MAX", 2)
    growth = GrowingSums()
    growth.update("g", "a", {"n": 100})
    growth.reset()
    growth.update("g", "a", {"n": 103})
    assert {"n": 3} == growth.sums("g")

    for part in "bc":
        growth.update("g", part, {"n": 0})
    assert 2 == len(growth._last)
