"""Events of fetching: each one has a line in the log."""

from __future__ import annotations

import logging

import pytest

from kfetch.fetch import events
from kfetch.fetch.events import FetchEvent
from kfetch.model import Broker
from kfetch.session.transitions import SessionEvent

BROKER = Broker(node_id=1, host="h", port=9092)
LINES: list[tuple[FetchEvent, str]] = [
    (events.Connected(broker=BROKER), "connected"),
    (
        events.Requested(
            broker=BROKER, session_id=7, epoch=3, full=False, partitions=2, forgotten=1, size=90
        ),
        "incremental fetch (7, 3) of 90 bytes names 2 partitions and forgets 1",
    ),
    (
        events.Requested(
            broker=BROKER, session_id=0, epoch=0, full=True, partitions=2, forgotten=0, size=9
        ),
        "full fetch (0, 0) of 9 bytes names 2 partitions",
    ),
    (
        events.Replied(broker=BROKER, size=5, partitions=2, wait_s=0.5),
        "5 bytes of 2 partitions after 500.0 ms",
    ),
    (
        events.SessionChanged(broker=BROKER, event=SessionEvent.OPENED, session_id=7, partitions=3),
        "session 7 opened, 3 partitions",
    ),
    (
        events.SessionChanged(
            broker=BROKER, event=SessionEvent.LOST, session_id=0, partitions=3, problem="70"
        ),
        "session 0 lost, 3 partitions: 70",
    ),
    (
        events.SessionChanged(
            broker=BROKER, event=SessionEvent.REJECTED, session_id=7, partitions=3
        ),
        "session 7 rejected, 3 partitions",
    ),
    (
        events.Decoded(records=10, size=2000, seconds=0.001),
        "10 records of 2000 bytes decoded in 1.0 ms",
    ),
    (events.BatchSkipped(problem="its CRC does not match"), "skipped: its CRC does not match"),
    (
        events.Undecoded(topic="t", kind="value: field a is no INT", records=3),
        "t: 3 records could not be decoded: value: field a is no INT",
    ),
    (
        events.UnknownFields(topic="t", fields={"value.a": 2}, sampled=9),
        "t: unknown fields in 9 sampled values: value.a",
    ),
    (events.WaitedForMemory(broker=BROKER, seconds=1.5), "waited 1.50 s for memory"),
]


@pytest.mark.parametrize(("event", "line"), LINES, ids=lambda value: type(value).__name__)
def test_the_log_line_of_an_event(
    event: FetchEvent, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """log_event writes one line about the event, at DEBUG."""
    with caplog.at_level(logging.DEBUG, "kfetch.fetch.events"):
        events.log_event(event)

    assert line in caplog.messages[0]
    assert "DEBUG" == caplog.records[0].levelname
