"""Counts by topic and name have a limit, and lose no count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kfetch.topic_counts import OTHER, TopicCounts, added, printable

names = st.sampled_from([f"n{i}" for i in range(30)])
kinds = st.dictionaries(
    st.sampled_from([f"t{i}" for i in range(120)]), st.dictionaries(names, st.integers(1, 9))
)


def _total(counts: TopicCounts) -> int:
    return sum(sum(names.values()) for names in counts.values())


@given(st.lists(kinds, max_size=20))
def test_sums(parts: list[TopicCounts]) -> None:
    """No count is lost, whatever the names; and there are never more than the limits."""
    sums: TopicCounts = {}
    for part in parts:
        sums = added(sums, part)

    assert sum(map(_total, parts)) == _total(sums)
    assert len(sums) <= 101
    assert all(len(names) <= 21 for names in sums.values())


def test_names_beyond_the_limit() -> None:
    """The first names stay, and all later ones count as other."""
    first = {"t": {f"n{i}": 1 for i in range(20)}}
    assert {"t": first["t"] | {OTHER: 5, "n0": 3}} == added(first, {"t": {"x": 2, "y": 3, "n0": 2}})


def test_printable() -> None:
    """What ends a line, or what UTF-8 can't hold, is a question mark."""
    assert "a é??" == printable("a é\n\ud800")
