"""Fetch requests in the logs of brokers of every version: text up to 2.6, JSON since 2.7."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from integration.brokers.cluster import ReleaseCluster


class LoggedFetch(NamedTuple):
    """The session of a fetch, as a broker logged it."""

    session: int
    epoch: int
    replied_session: int

    @property
    def opens(self) -> bool:
        """Whether the broker opened a session for it."""
        return self.epoch == 0 and self.replied_session != 0


_SESSION = re.compile(r'(?:session_id=|"sessionId":)(-?\d+)')
_EPOCH = re.compile(r'(?:session_epoch=|"sessionEpoch":)(-?\d+)')
_FETCH = re.compile(r'apiKey=FETCH|"requestApiKeyName":"FETCH"')


def fetches(cluster: ReleaseCluster, client_id: str) -> list[LoggedFetch]:
    """Returns all fetches of a client, broker by broker, in order."""
    logs = [node.log.parent / "requests.log" for node in cluster.nodes]
    return [fetch for log in logs if log.exists() for fetch in _read(log, client_id)]


def _read(log: Path, client_id: str) -> Iterator[LoggedFetch]:
    of_client = re.compile(rf'clientId(?:=|":"){re.escape(client_id)}[",)]')
    for line in log.read_text(errors="replace").splitlines():
        if _FETCH.search(line) and of_client.search(line):
            sessions, epochs = _SESSION.findall(line), _EPOCH.findall(line)
            # A line that is being written now may end anywhere.
            if len(sessions) == 2 and epochs:
                yield LoggedFetch(int(sessions[0]), int(epochs[0]), int(sessions[1]))
