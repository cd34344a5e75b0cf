"""The agents of this machine and user, as they describe themselves: for ``kfetch agents``."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kfetch._version import __version__
from kfetch.agent.channel import Channel, Greeting, QueryStatus, Status, StatusRequest
from kfetch.agent.home import user_directory
from kfetch.errors import AgentError

__all__ = ["describe", "find", "to_json", "watch"]

_TOPICS_MAX = 3  # told by name
_PATIENCE_S = 2.0
"""An agent that needs longer for an answer is left out."""


def find(patience_s: float = _PATIENCE_S, within_s: float = math.inf) -> list[Status]:
    """What every agent that answers holds; none is asked any more after ``within_s``."""
    deadline = time.monotonic() + within_s
    asked = (
        _ask(str(path), patience_s)
        for path in sorted(user_directory().glob("*.sock"))
        if time.monotonic() < deadline
    )
    return [status for status in asked if status is not None]


def _ask(path: str, patience_s: float) -> Status | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        channel = Channel(stream, patience_s)
        try:
            stream.connect(path)
            channel.send(Greeting(version=__version__, pid=0))
            channel.receive()
            channel.send(StatusRequest())
            status, _ = channel.receive()
        except (OSError, AgentError):
            return None
        return replace(status, log=_log_of(path)) if isinstance(status, Status) else None


def _log_of(socket_path: str) -> str:
    return str(Path(socket_path).with_suffix(".log"))


def watch(seconds: float) -> list[tuple[Status, dict[str, float]]]:
    """Every agent, and the records per second of its queries in the seconds that this takes."""
    before = {(s.pid, q.name): q.totals.records for s in find() for q in s.queries}
    time.sleep(seconds)
    return [
        (
            status,
            {
                query.name: (query.totals.records - before[status.pid, query.name]) / seconds
                for query in status.queries
                if (status.pid, query.name) in before
            },
        )
        for status in find()
    ]


def to_json(status: Status, rates: Mapping[str, float]) -> dict[str, Any]:
    """One agent, for machines."""
    told = asdict(status)
    for query in told["queries"]:
        query["records_per_second"] = rates.get(query["name"])
    return told


def describe(status: Status, rates: Mapping[str, float]) -> str:
    """A few lines about one agent."""
    used, limit = status.memory_used / (1 << 20), status.memory_limit / (1 << 20)
    peak = status.memory_peak / (1 << 20)
    lines = [
        f"agent {status.pid}: {status.workers} tasks read, {used:.0f} of {limit:.0f} MiB in use "
        f"(at most {peak:.0f})",
        f"  log: {status.log}",
    ]
    for query in status.queries:
        lines += _query_lines(query, rates.get(query.name, 0.0))
    return "\n".join(lines)


def _query_lines(query: QueryStatus, rate: float) -> Iterator[str]:
    totals = query.totals
    requests = totals.full_requests + totals.incremental_requests
    yield f"  query {query.stream or query.name}: {_some(query.topics)}, {rate:,.0f} records/s"
    yield (
        f"    {totals.records:,} records, {requests:,} requests ({totals.full_requests} full), "
        f"{totals.reply_bytes / (1 << 20):,.1f} MiB, decoded in {totals.decode_s:.1f} s, "
        f"waited {totals.starved_s:.1f} s for memory, idle for {query.idle_s:.0f} s"
    )
    yield (
        f"    sessions: {totals.sessions_opened} opened, {totals.sessions_lost} lost, "
        f"{totals.sessions_refused} refused, {totals.sessions_closed} closed"
    )
    for session in query.sessions:
        yield (
            f"    {session.broker}: session {session.session_id}, epoch {session.epoch}, "
            f"{session.partitions} partitions ({session.state})"
        )


def _some(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _TOPICS_MAX} more" if len(topics) > _TOPICS_MAX else ""
    return ", ".join(topics[:_TOPICS_MAX]) + more
