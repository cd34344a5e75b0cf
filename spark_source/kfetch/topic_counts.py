"""Counts by topic and name, with a limit for both, so that records cannot fill the memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping

TopicCounts = Mapping[str, Mapping[str, int]]
"""Counts by topic, then by name."""

OTHER = "other"
"""The name for everything beyond the limits."""
_TOPICS_MAX = 100
_NAMES_MAX = 20
"""Names of one topic."""


def added(first: TopicCounts, second: TopicCounts) -> dict[str, dict[str, int]]:
    """Returns the sum of two counts. It has no more than 100 topics, and 20 names of each."""
    sums = {topic: dict(names) for topic, names in first.items()}
    for topic, names in second.items():
        to = sums.setdefault(topic if topic in sums or len(sums) < _TOPICS_MAX else OTHER, {})
        for name, count in names.items():
            kept = name if name in to or len(to) < _NAMES_MAX else OTHER
            to[kept] = to.get(kept, 0) + count
    return sums


def printable(text: str) -> str:
    """Returns a text that fits into a line of the log, and that UTF-8 can hold.

    Producers choose names of fields, and of types in a registry.
    """
    return "".join(char if char.isprintable() else "?" for char in text)
