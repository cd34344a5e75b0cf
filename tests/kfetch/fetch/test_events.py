"""Facts of reading: each has a line for the log, and adds to the totals what it tells."""

from __future__ import annotations

import logging

import pytest

from kfetch.fetch import events
from kfetch.fetch.stats import FetchStats, Totals
from kfetch.model import Broker
from kfetch.session.transitions import SessionEvent

AT = Broker(node_id=1, host="h", port=9092)
FACTS: list[tuple[events.Fact, FetchStats, str]] = [
    (events.Connected(broker=AT), FetchStats(connections_opened=1), "connected"),
    (
        events.Requested(
            broker=AT, session_id=7, epoch=3, full=False, named=2, forgotten=1, size=90
        ),
        FetchStats(incremental_requests=1, incremental_request_bytes=90, incremental_partitions=3),
        "incremental fetch (7, 3) of 90 bytes names 2 partitions and forgets 1",
    ),
    (
        events.Requested(broker=AT, session_id=0, epoch=0, full=True, named=2, forgotten=0, size=9),
        FetchStats(full_requests=1, full_request_bytes=9),
        "full fetch (0, 0) of 9 bytes names 2 partitions",
    ),
    (
        events.Replied(broker=AT, size=5, partitions=2, wait_s=0.5),
        FetchStats(reply_bytes=5, wait_s=0.5),
        "5 bytes of 2 partitions after 500.0 ms",
    ),
    (
        events.SessionMoved(broker=AT, event=SessionEvent.OPENED, session_id=7, partitions=3),
        FetchStats(sessions_opened=1),
        "session 7 opened, 3 partitions",
    ),
    (
        events.SessionMoved(
            broker=AT, event=SessionEvent.LOST, session_id=0, partitions=3, problem="70"
        ),
        FetchStats(sessions_lost=1),
        "session 0 lost, 3 partitions: 70",
    ),
    (
        events.SessionMoved(broker=AT, event=SessionEvent.REJECTED, session_id=7, partitions=3),
        FetchStats(),
        "session 7 rejected, 3 partitions",
    ),
    (
        events.Decoded(records=10, size=2000, seconds=0.001),
        FetchStats(records=10, decode_s=0.001),
        "10 records of 2000 bytes decoded in 1.0 ms",
    ),
    (events.Starved(broker=AT, seconds=1.5), FetchStats(starved_s=1.5), "waited 1.50 s for memory"),
]


@pytest.mark.parametrize(("fact", "counted", "line"), FACTS, ids=lambda value: type(value).__name__)
def test_a_fact(
    fact: events.Fact, counted: FetchStats, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted as what it is, twice when it comes twice, and told at DEBUG alone."""
    totals = Totals()
    totals.add(fact)

    assert counted == totals.stats()
    totals.add(fact)
    assert counted + counted == totals.stats()
    with caplog.at_level(logging.DEBUG, "kfetch.fetch.events"):
        events.story(fact)
    assert line in caplog.messages[0]
    assert "DEBUG" == caplog.records[0].levelname
