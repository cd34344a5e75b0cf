"""Finds the agents of this user on this machine, and asks them for their status.

Each executor that reads with ``kfetch.agent=process`` has one agent. ``Status`` describes it: its
process, memory in bytes, tasks that read, and a ``QueryStatus`` for each query, with totals and
fetch sessions.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kfetch._version import __version__
from kfetch.agent.channel import Channel, Greeting, QueryStatus, Status, StatusRequest
from kfetch.agent.home import user_directories
from kfetch.errors import AgentError

__all__ = ["QueryStatus", "Status", "find", "find_with_rates"]

_ANSWER_S = 2.0


def find(answer_s: float = _ANSWER_S, within_s: float = math.inf) -> list[Status]:
    """Returns the status of every agent that answers within ``answer_s`` seconds.

    Asks no further agent after ``within_s`` seconds altogether. Raises AgentError if the
    directory of sockets belongs to somebody else.
    """
    deadline = time.monotonic() + within_s
    statuses = (
        _status_at(path, answer_s)
        for directory in user_directories()
        for path in sorted(directory.glob("*.sock"))
        if time.monotonic() < deadline
    )
    return [status for status in statuses if status is not None]


def find_with_rates(seconds: float) -> list[tuple[Status, dict[str, float]]]:
    """Returns each agent with the records per second of its queries, by ``QueryStatus.name``.

    Asks twice, ``seconds`` apart. A query without a first answer has no rate.
    """
    before = {(s.pid, q.name): q.totals.records for s in find() for q in s.queries}
    time.sleep(seconds)
    return [(status, _rates(status, before, seconds)) for status in find()]


def _rates(
    status: Status, before: Mapping[tuple[int, str], int], seconds: float
) -> dict[str, float]:
    return {
        query.name: (query.totals.records - before[status.pid, query.name]) / seconds
        for query in status.queries
        if (status.pid, query.name) in before
    }


def _status_at(path: Path, answer_s: float) -> Status | None:
    """Returns an agent's status; None if it has ended, is too slow or is of another version."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        channel = Channel(stream, answer_s)
        try:
            stream.connect(str(path))
            channel.send(Greeting(version=__version__, pid=0))
            channel.receive()
            channel.send(StatusRequest())
            status, _ = channel.receive()
        except (OSError, AgentError):
            return None
    if not isinstance(status, Status):
        return None
    return replace(status, log=str(path.with_suffix(".log")))
