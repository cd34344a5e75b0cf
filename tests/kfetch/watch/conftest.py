"""Watch tests run without pauses, over a little Kafka with one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kfetch import losses
from kfetch.watch import lookups, poller, position_check
from kfetch.watch.driver import Driver
from tests.kfetch.watch.damage import Reader
from tests.kfetch.watch.helpers import ALWAYS, fill, opened, query
from tests.kfetch.watch.live_query import Query
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between look-ups."""
    monkeypatch.setattr(position_check, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(lookups, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close every driver after its test."""
    yield
    while opened:
        opened.pop().close()


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with 3 records in t-0 and 1 in t-1, on two nodes."""
    with LittleKafka(2) as running:
        fill(running)
        yield running


@pytest.fixture
def driver(kafka: LittleKafka) -> Driver:
    """A query over all of t."""
    return query(kafka)


@pytest.fixture
def lenient(kafka: LittleKafka) -> Reader:
    """A query with failOnDataLoss=false that has read everything so far."""
    reader = Reader(kafka, query(kafka, failOnDataLoss="false", **ALWAYS))
    reader.batch()
    return reader


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses: the little Kafka does not wait, so they set the rate of polls."""
    monkeypatch.setattr(poller, "poll_pause_s", lambda **_: 0.002)


@pytest.fixture
def watched(kafka: LittleKafka) -> Iterator[Callable[..., Query]]:
    """Makes queries, and closes them."""
    made: list[Query] = []

    def make(**options: str) -> Query:
        made.append(Query(kafka, **options))
        return made[-1]

    yield make
    for live in made:
        live.close()
