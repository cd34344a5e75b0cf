"""Statistics: which counters each event of fetching raises."""

from __future__ import annotations

from typing import get_args

import pytest

from kfetch.fetch import events
from kfetch.fetch.events import FetchEvent
from kfetch.fetch.stats import FetchStats, counts, total
from kfetch.model import Broker
from kfetch.session.transitions import SessionEvent

BROKER = Broker(node_id=1, host="h", port=9092)
COUNTED: list[tuple[FetchEvent, FetchStats]] = [
    (events.Connected(broker=BROKER), FetchStats(connections_opened=1)),
    (
        events.Requested(
            broker=BROKER, session_id=7, epoch=3, full=False, partitions=2, forgotten=1, size=90
        ),
        FetchStats(incremental_requests=1, incremental_request_bytes=90, incremental_partitions=3),
    ),
    (
        events.Requested(
            broker=BROKER, session_id=0, epoch=0, full=True, partitions=2, forgotten=0, size=9
        ),
        FetchStats(full_requests=1, full_request_bytes=9),
    ),
    (
        events.Replied(broker=BROKER, size=5, partitions=2, wait_s=0.5),
        FetchStats(reply_bytes=5, wait_s=0.5),
    ),
    (
        events.Replied(broker=BROKER, size=5, partitions=2, wait_s=0.5, other_rack_bytes=3),
        FetchStats(reply_bytes=5, wait_s=0.5, other_rack_bytes=3),
    ),
    *(
        (
            events.SessionChanged(broker=BROKER, event=event, session_id=7, partitions=3),
            FetchStats(**counter),
        )
        for event, counter in [
            (SessionEvent.OPENED, {"sessions_opened": 1}),
            (SessionEvent.LOST, {"sessions_lost": 1}),
            (SessionEvent.REFUSED, {"sessions_refused": 1}),
            (SessionEvent.CLOSED, {"sessions_closed": 1}),
            (SessionEvent.REJECTED, {}),
        ]
    ),
    (
        events.Decoded(records=10, size=2000, seconds=0.001),
        FetchStats(records=10, decode_s=0.001),
    ),
    (events.BatchSkipped(problem="its CRC does not match"), FetchStats(batches_skipped=1)),
    (
        events.Undecoded(topic="t", kind="k", records=3),
        FetchStats(undecoded=3, undecoded_kinds={"t": {"k": 3}}),
    ),
    (
        events.UnknownFields(topic="t", fields={"a": 1}, sampled=9),
        FetchStats(sampled=9, unknown_fields={"t": {"a": 1}}),
    ),
    (events.UnknownFields(topic="t", fields={}, sampled=9), FetchStats(sampled=9)),
    (events.WaitedForMemory(broker=BROKER, seconds=1.5), FetchStats(starved_s=1.5)),
]


@pytest.mark.parametrize(("event", "counted"), COUNTED)
def test_the_counters_of_an_event(event: FetchEvent, counted: FetchStats) -> None:
    """An event raises its own counters and no others. Without unknown fields it adds no topic."""
    assert counted == FetchStats(**counts(event))


def test_every_event_is_counted() -> None:
    """The table above has every kind of event."""
    assert {*get_args(FetchEvent)} == {type(event) for event, _ in COUNTED}


def test_the_total_of_several_brokers() -> None:
    """total adds up field by field."""
    parts = [FetchStats(records=2, wait_s=0.5), FetchStats(records=3, sessions_lost=1)]

    assert FetchStats(records=5, wait_s=0.5, sessions_lost=1) == total(parts)
    parts = [FetchStats(undecoded_kinds={"t": {"k": n}}) for n in (1, 2)]
    assert FetchStats(undecoded_kinds={"t": {"k": 3}}) == total(parts)
