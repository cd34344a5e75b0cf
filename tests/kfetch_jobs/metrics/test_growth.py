"""How much totals grow."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.metrics.growth import Growth
from tests.examples import examples


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=30),
)
@examples(30)
def test_each_increase_counts_once(steps: list[tuple[str, int, bool]]) -> None:
    """The increase of each part counts once, even if the part restarts with lower totals. A total
    that does not grow has none."""
    growth, now = Growth[str](), Counter[str]()
    for part, more, anew in steps:
        anew = anew and more < now[part]
        now[part] = more if anew else now[part] + more

        assert ({"n": more} if more else {}) == growth.increase(part, {"n": now[part]})


def test_too_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one with the oldest update is forgotten."""
    monkeypatch.setattr("kfetch_jobs.metrics.growth._PARTS_MAX", 2)
    growth = Growth[str]()
    for part in "abac":
        growth.increase(part, {"n": 100})

    assert [{}, {"n": 100}] == [growth.increase(part, {"n": 100}) for part in "ab"]
