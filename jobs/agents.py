"""The agents of this machine and user, as they describe themselves: for ``kfetch agents``."""

from __future__ import annotations

import socket

from spark_source import __version__
from spark_source.agent.channel import AskStatus, Channel, Hello, QueryStatus, Status
from spark_source.agent.home import user_directory
from spark_source.errors import AgentError

__all__ = ["describe", "find"]

_PATIENCE_S = 2.0
"""An agent that needs longer for an answer is left out."""


def find() -> list[Status]:
    """What every agent that answers holds."""
    asked = (_ask(str(path)) for path in sorted(user_directory().glob("*.sock")))
    return [status for status in asked if status is not None]


def _ask(path: str) -> Status | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        channel = Channel(stream, _PATIENCE_S)
        try:
            stream.connect(path)
            channel.send(Hello(version=__version__, pid=0))
            channel.receive()
            channel.send(AskStatus())
            status, _ = channel.receive()
        except (OSError, AgentError):
            return None
        return status if isinstance(status, Status) else None


def describe(status: Status) -> str:
    """A few lines about one agent."""
    used, limit = status.memory_used / (1 << 20), status.memory_limit / (1 << 20)
    peak = status.memory_peak / (1 << 20)
    lines = [
        f"agent {status.pid}: {status.workers} workers read, {used:.0f} of {limit:.0f} MiB in use "
        f"(at most {peak:.0f})"
    ]
    for query in status.queries:
        lines += _query_lines(query)
    return "\n".join(lines)


def _query_lines(query: QueryStatus) -> list[str]:
    totals = query.totals
    requests = totals.full_requests + totals.incremental_requests
    head = (
        f"  query {query.name[:8]}: {totals.records:,} records, {requests:,} requests "
        f"({totals.full_requests} full), {totals.reply_bytes / (1 << 20):,.1f} MiB, "
        f"sessions opened {totals.sessions_opened}, lost {totals.sessions_lost}, "
        f"refused {totals.sessions_refused}, idle for {query.idle_s:.0f} s"
    )
    return [head, *(f"    {line}" for line in query.sessions)]
