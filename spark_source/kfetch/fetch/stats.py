"""What a query's fetch sessions cost: requests, bytes, sessions, records, waits. Pure.

Each count is declared once, as a field of ``FetchStats``. Sums, the files of statistics, Prometheus
and docs/reference/metrics.md follow from the declaration. ``totals`` adds up, and writes the files
for the option ``kfetch.statsDirectory``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kfetch.topic_counts import added


@dataclass(frozen=True, slots=True)
class Metric:
    """A Prometheus counter. Its name says the unit, as in ``_seconds_total``."""

    name: str
    meaning: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The declaration of a count that Prometheus shows."""

    metric: Metric
    label_values: tuple[str, ...] = ()
    """Values of the labels behind job and reader. A count by topic has its keys instead."""
    by_topic: bool = False


_READER = ("job_name", "reader")


def _count(name: str, meaning: str, zero: float = 0) -> Any:
    return field(default=zero, metadata={"count": Count(Metric(name, meaning, _READER))})


def _part(metric: Metric, label_value: str) -> Any:
    """Declares one of several counts that share a metric."""
    return field(default=0, metadata={"count": Count(metric, (label_value,))})


def _count_by_topic(name: str, meaning: str, label: str) -> Any:
    count = Count(Metric(name, meaning, ("job_name", "topic", label)), by_topic=True)
    return field(default_factory=dict, metadata={"count": count})


_REQUESTS = Metric(
    "kfetch_job_fetch_requests_total",
    "Fetch requests. A `full` one names all partitions, an `incremental` one changes only.",
    (*_READER, "type"),
)
_REQUEST_BYTES = Metric(
    "kfetch_job_fetch_request_bytes_total", "Size of the requests.", (*_READER, "type")
)
_SESSION_EVENTS = Metric(
    "kfetch_job_fetch_session_events_total",
    "Fetch sessions `opened`, `lost` (evicted, or gone with their broker), `refused` (the "
    "broker's cache was full), `closed`.",
    (*_READER, "event"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStats:
    """Totals since the query's first read in this process. Sizes are bytes on the wire.

    It is wide because it is a table with a row for each count. The names of its fields are the keys
    in the files of statistics. A field without a metric has a plain default.
    """

    full_requests: int = _part(_REQUESTS, "full")
    full_request_bytes: int = _part(_REQUEST_BYTES, "full")
    incremental_requests: int = _part(_REQUESTS, "incremental")
    incremental_request_bytes: int = _part(_REQUEST_BYTES, "incremental")
    incremental_partitions: int = 0
    """Partitions that incremental requests named or forgot."""
    reply_bytes: int = _count("kfetch_job_fetch_response_bytes_total", "Size of the replies.")
    other_rack_bytes: int = _count(
        "kfetch_job_fetch_other_rack_bytes_total",
        "Record batches from brokers of other or unknown racks; 0 without `kafka.client.rack`.",
    )
    wait_s: float = _count(
        "kfetch_job_fetch_wait_seconds_total", "Time between requests and their replies.", 0.0
    )
    """Waits for several brokers may overlap."""
    records: int = _count("kfetch_job_fetch_records_total", "Decoded records.")
    batches_skipped: int = _count(
        "kfetch_job_fetch_batches_skipped_total", "Damaged record batches that were skipped."
    )
    """The decoder skips them with kfetch.onCorruptBatch=skip."""
    undecoded: int = _count(
        "kfetch_job_fetch_undecoded_records_total",
        "Records whose key or value the source could not decode (`valueFormat`, `keyFormat`).",
    )
    """``records`` includes them."""
    undecoded_kinds: Mapping[str, Mapping[str, int]] = _count_by_topic(
        "kfetch_job_fetch_undecoded_kinds_total",
        "These records by topic and by reason, 20 reasons for each topic at most.",
        "kind",
    )
    sampled: int = 0
    """Keys and values that were examined for fields that their schema lacks."""
    unknown_fields: Mapping[str, Mapping[str, int]] = _count_by_topic(
        "kfetch_job_fetch_unknown_fields_total",
        "Sampled keys and values with a field that the schema lacks, 20 fields of each topic.",
        "field",
    )
    decode_s: float = _count("kfetch_job_fetch_decode_seconds_total", "Time for decoding.", 0.0)
    starved_s: float = _count(
        "kfetch_job_fetch_memory_wait_seconds_total",
        "Time in which readers waited for agent memory.",
        0.0,
    )
    """Requests wait for it if the agents use all of ``kfetch.agent.memory``."""
    sessions_opened: int = _part(_SESSION_EVENTS, "opened")
    sessions_lost: int = _part(_SESSION_EVENTS, "lost")
    sessions_refused: int = _part(_SESSION_EVENTS, "refused")
    sessions_closed: int = _part(_SESSION_EVENTS, "closed")
    """Sessions that kfetch closed."""
    connections_opened: int = _count(
        "kfetch_job_fetch_connections_opened_total", "Opened connections to brokers."
    )

    def __add__(self, other: FetchStats) -> FetchStats:
        sums = {name: add(getattr(self, name), getattr(other, name)) for name, add in ADD.items()}
        return FetchStats(**sums)


COUNTS: Mapping[str, Count] = {
    one.name: one.metadata["count"] for one in fields(FetchStats) if one.metadata
}
"""The declarations by field of FetchStats."""
ADD: Mapping[str, Callable[[Any, Any], Any]] = {
    one.name: added if one.default_factory is dict else operator.add for one in fields(FetchStats)
}
"""How two values of a field add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The fetch session of one query at one broker."""

    broker: str
    state: str
    """Name of a ``kfetch.session.transitions.SessionState``."""
    session_id: int
    """Of the next request, like ``epoch``."""
    epoch: int
    partitions: int
    """Number of partitions that the session holds."""
    rack: str = ""
    """The broker's rack; empty if it has none."""
    as_follower: int = 0
    """Number of these partitions that the broker does not lead (``kafka.client.rack``)."""


def total(parts: Iterable[FetchStats]) -> FetchStats:
    """Returns the sum of several processes' or brokers' totals."""
    return sum(parts, FetchStats())
