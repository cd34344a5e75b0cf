"""Sizes of fetch requests with and without a session: ``python -m tools.session_bytes``.

The requests are those that kfetch sends, encoded without a broker. docs/explanation/fetch-sessions
shows the table and the bytes of one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kfetch.model import FetchPosition, TopicPartition
from kfetch.options import FetchOptions
from kfetch.session.plan import FetchPlan
from kfetch.session.replies import TOPIC_ID_VERSION, SessionReply
from kfetch.session.session import FetchSession
from kfetch.wire import fetch

__all__ = ["dump", "table"]

TOPIC_ID = UUID("6f1ed002-ab55-4585-9014-ebf0951522d9")
PARTITIONS = 500
SHOWN_VERSION = 18
FIELDS_OF_18 = (
    (4, "length of the rest"),
    (2, "API key 1: Fetch"),
    (2, "version 18"),
    (4, "correlation id"),
    (8, "length and text of the client id: kfetch"),
    (1, "no tags in the header"),
    (4, "the longest wait: 500 ms"),
    (4, "at least 1 byte"),
    (4, "at most 50 MiB"),
    (1, "isolation level"),
    (4, "session id"),
    (4, "session epoch"),
    (1, "no partition that changed"),
    (1, "no partition to forget"),
    (1, "no rack"),
    (1, "no tags"),
)
"""Length and meaning of each field of an incremental request in which nothing changed."""


def table() -> str:
    """Returns a row for each version of Fetch with sessions: sizes of three requests in bytes."""
    rows = [f"| {version} | {_sizes(version)} |" for version in range(7, fetch.HIGHEST_VERSION + 1)]
    head = "| version | full, 500 partitions | incremental, 1 changed | incremental, none changed |"
    return "\n".join([head, "|---|---|---|---|", *rows]) + "\n"


def _sizes(version: int) -> str:
    return " | ".join(f"{len(frame):,}" for frame in _frames(version))


def _frames(version: int) -> list[bytes]:
    """Returns three requests of one session: the first one, then one change, then none."""
    topic_ids = version >= TOPIC_ID_VERSION
    session = FetchSession(topic_ids=topic_ids)
    partitions = [TopicPartition("clicks", number) for number in range(PARTITIONS)]
    changes: list[Mapping[TopicPartition, FetchPosition | None]] = [
        {tp: _position(0) for tp in partitions},
        {partitions[7]: _position(1)},
        {},
    ]
    frames = []
    for number, change in enumerate(changes):
        plan = session.plan(change)
        frames.append(_frame(plan, version))
        keys = [(TOPIC_ID if topic_ids else tp.topic, tp.partition) for tp in partitions]
        reply = SessionReply(session_id=837261, partitions=() if number else keys)
        session.accept(plan, reply)
    return frames


def _position(offset: int) -> FetchPosition:
    return FetchPosition(topic_id=TOPIC_ID, offset=offset, max_bytes=4 << 20, leader_epoch=3)


def _frame(plan: FetchPlan, version: int) -> bytes:
    request = fetch.request(plan, version, FetchOptions())
    request.with_header(correlation_id=9, client_id="kfetch")
    return bytes(request.encode(header=True, framed=True))


def dump() -> str:
    """Returns the bytes of an incremental request in which nothing changed, with their meaning."""
    frame = _frames(SHOWN_VERSION)[-1]
    lines, at = [], 0
    for size, meaning in FIELDS_OF_18:
        lines.append(f"{frame[at : at + size].hex(' '):<24}{meaning}")
        at += size
    if at != len(frame):
        raise ValueError(f"{len(frame)} bytes, and FIELDS_OF_18 names {at}")
    return "```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    print(table(), dump(), sep="\n")
