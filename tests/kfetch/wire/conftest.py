"""A little Kafka, a cluster that asks it, the clock of the retries, and brokers with TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kfetch.wire import retry
from kfetch.wire.cluster import Cluster
from tests.kfetch.wire.certificates import Identity, server_context
from tests.kfetch.wire.helpers import OPTIONS, T0, T1, Clock
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import ScriptedBroker
from tests.kfetch.wire.tls_helpers import BROKER, Start


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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers with TLS that answer Metadata, and stops them."""
    brokers: list[ScriptedBroker] = []

    def begin(identity: Identity = BROKER, **settings: object) -> ScriptedBroker:
        context = server_context(identity, tmp_path, **settings)  # type: ignore[arg-type]
        broker = ScriptedBroker(tls=context)
        reply = MetadataResponse(version=9, brokers=[], cluster_id="c", controller_id=1, topics=[])
        broker.always(MetadataRequest, reply)
        brokers.append(broker)
        return broker

    yield begin
    for broker in brokers:
        broker.close()
