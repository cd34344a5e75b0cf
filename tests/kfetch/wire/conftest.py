"""A little Kafka, a cluster that asks it, and the clock of the retries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kfetch.wire import retry
from kfetch.wire.cluster import Cluster
from tests.kfetch.wire.helpers import OPTIONS, T0, T1, Clock
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the retries."""
    made = Clock()
    monkeypatch.setattr(retry, "time", made)
    return made


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Two nodes; t-0 is led by the first, t-1 by the second."""
    with LittleKafka(2) as running:
        running.create("t", 2)
        running.log(T0).append(b"a")
        running.log(T1).append(b"a", b"b")
        yield running


@pytest.fixture
def cluster(kafka: LittleKafka) -> Iterator[Cluster]:
    """A cluster that knows both nodes' addresses."""
    made = Cluster(tuple(("127.0.0.1", n.port) for n in kafka.nodes.values()), OPTIONS)
    yield made
    made.close()
