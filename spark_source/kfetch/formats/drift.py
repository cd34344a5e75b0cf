"""Watches for fields that records have and the schema lacks, on a sample of the records.

Every ten seconds, each process examines 20 values of one batch of a query. So the counts are those
of the sample. A log line names the fields, once an hour for each query at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kfetch.records import Slice
from kfetch.topic_counts import TopicCounts, added, printable

log = logging.getLogger(__name__)

_SAMPLE_S = 10.0
_SAMPLE_RECORDS = 20
_SAMPLE_BYTES = 16 << 10
"""Bytes of all values of a sample. A kB of JSON takes up to 1 ms."""
_REPORT_S = 3600.0
_NAME_MAX = 60  # characters
_NAMES_MAX = 20
"""Names of one value."""


class Drift(NamedTuple):
    """The unknown fields of a sample."""

    topic: str
    fields: Mapping[str, int]
    """Names with their column in front, and the number of sampled records that have them."""
    sampled: int
    """Keys and values that were examined."""


class FieldWatch:
    """The unknown fields of one query. Any thread may use it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._next_sample = now()
        self._next_report = now()
        self._unreported: TopicCounts = {}
        self._sampled = 0
        """Values since the last report."""

    def takes_sample(self) -> bool:
        """Returns whether it is time for the next sample, which the caller then takes."""
        if self._now() < self._next_sample:
            return False
        with self._lock:
            due = self._now() >= self._next_sample
            if due:
                self._next_sample = self._now() + _SAMPLE_S
            return due

    def add(self, found: Drift) -> None:
        """Count a sample. Logs the fields, if the last report was an hour ago."""
        with self._lock:
            self._sampled += found.sampled
            self._unreported = added(self._unreported, {found.topic: found.fields})
            fields = {topic: names for topic, names in self._unreported.items() if names}
            if not fields or self._now() < self._next_report:
                return
            sampled, self._sampled, self._unreported = self._sampled, 0, {}
            self._next_report = self._now() + _REPORT_S
        for topic, names in fields.items():
            listed = ", ".join(f"{name} ({count})" for name, count in names.items())
            log.warning(
                "topic %s has fields that the schema lacks: %s; %d values were examined. kfetch "
                "skips these fields",
                topic,
                listed,
                sampled,
            )


def sample(columns: Sequence[tuple[str, Any, Any]], slices: Sequence[Slice]) -> Drift:
    """Returns the unknown fields of some records of a batch.

    ``columns``: name, decoder and bytes of each typed column.
    """
    names: Counter[str] = Counter()
    sampled, left = 0, _SAMPLE_BYTES
    for name, decoder, column in columns:
        for row in _rows(len(column)):
            value = column[row].as_buffer()
            size = value.size if value is not None else 0
            if not 0 < size <= left:
                continue
            left, sampled = left - size, sampled + 1
            found = islice(decoder.unknown_fields(value.to_pybytes()), _NAMES_MAX)
            names.update({printable(f"{name}.{field}"[:_NAME_MAX]) for field in found})
    topics = sorted({one.tp.topic for one in slices})
    more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
    return Drift(topic=f"{topics[0]}{more}", fields=dict(names), sampled=sampled)


def _rows(count: int) -> range:
    return range(0, count, max(1, count // _SAMPLE_RECORDS))[:_SAMPLE_RECORDS]
