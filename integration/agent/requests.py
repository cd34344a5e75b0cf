"""The brokers' request logs, read as fetch requests with their sessions and connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfetch_jobs.kafka import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One Fetch request and its reply, as a broker logged them."""

    node: int
    connection: str
    session: int
    epoch: int
    replied_session: int
    partitions: int
    """Partitions named in the request."""
    rack: str
    """The client's rack, if the request asks for a follower there."""
    record_bytes: int
    """Bytes of record batches in the reply."""

    @property
    def opens(self) -> bool:
        """Whether the broker opened a session for it."""
        return self.epoch == 0 and self.replied_session != 0


def fetches(cluster: Cluster, client_id: str) -> list[Fetch]:
    """Returns all Fetch requests of a client, broker by broker, in order."""
    return [
        fetch
        for node in cluster.nodes
        for fetch in _read(node.node_id, node.log.parent / "requests.log", client_id)
    ]


def _read(node: int, log: Path, client_id: str) -> Iterator[Fetch]:
    with log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):  # the broker still writes it
                return
            if f'"clientId":"{client_id}"' in line and '"requestApiKeyName":"FETCH"' in line:
                yield _fetch(node, json.loads(line[line.index("{") :]))


def _fetch(node: int, entry: dict[str, Any]) -> Fetch:
    request, reply = entry["request"], entry["response"]
    return Fetch(
        node=node,
        # host:port-host:port-processor-number: the last part is the broker's own counter.
        connection=entry["connection"],
        session=request["sessionId"],
        epoch=request["sessionEpoch"],
        replied_session=reply["sessionId"],
        partitions=sum(len(topic["partitions"]) for topic in request["topics"]),
        rack=request.get("rackId", ""),
        record_bytes=sum(
            partition["recordsSizeInBytes"]
            for topic in reply["responses"]
            for partition in topic["partitions"]
        ),
    )
