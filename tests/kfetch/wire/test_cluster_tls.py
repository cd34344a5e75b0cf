"""A cluster behind TLS: when a query fails at once, and when it retries."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from kfetch.errors import TlsFailed
from kfetch.options.secret import Secret
from kfetch.options.security import SecurityOptions
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire.cluster import Cluster
from tests.kfetch.wire import helpers
from tests.kfetch.wire.certificates import Authority, server_context
from tests.kfetch.wire.helpers import T0, soon
from tests.kfetch.wire.little import LittleKafka

AUTHORITY = Authority()
TLS = TlsOptions(truststore=Store(pem=Secret(AUTHORITY.pem)))
OPTIONS = replace(helpers.OPTIONS, security=SecurityOptions(tls=TLS))
LATEST = {T0: -1}


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node that leads t-0. It advertises 127.0.0.1."""
    with LittleKafka() as running:
        running.create("t")[0].append(b"a")
        yield running


def secured(kafka: LittleKafka, folder: Path, *names: str, days: int = 30) -> ssl.SSLContext:
    """Give the node a certificate for these names."""
    context = server_context(AUTHORITY.issue(*names, days=(-60, days)), folder)
    kafka.nodes[1].tls = context
    return context


Connect = Callable[..., Cluster]


@pytest.fixture
def connect(kafka: LittleKafka) -> Iterator[Connect]:
    """Makes clusters with the node as bootstrap server, and closes them."""
    made: list[Cluster] = []

    def new(*, patient: bool = False, host: str = "127.0.0.1") -> Cluster:
        made.append(Cluster(((host, kafka.nodes[1].port),), OPTIONS, patient=patient))
        return made[-1]

    yield new
    for cluster in made:
        cluster.close()


def test_a_cluster_behind_tls(kafka: LittleKafka, connect: Connect, tmp_path: Path) -> None:
    """Metadata and offsets come over TLS."""
    secured(kafka, tmp_path, "127.0.0.1")
    cluster = connect()

    assert cluster.view(["t"], soon()).exists(T0)
    assert 1 == cluster.offsets(LATEST, soon())[T0].offset


@pytest.mark.parametrize("patient", [True, False])
def test_a_bad_certificate_fails_at_once(
    kafka: LittleKafka, connect: Connect, tmp_path: Path, patient: bool
) -> None:
    """If every bootstrap server has a bad certificate, nobody retries the first question."""
    secured(kafka, tmp_path, "127.0.0.1", days=-1)
    with pytest.raises(TlsFailed, match="has a certificate that has expired") as caught:
        connect(patient=patient).view(["t"], soon())

    assert "tries" not in caught.value.message
    assert 1 == kafka.nodes[1].connections


def test_another_server_may_be_starting(
    kafka: LittleKafka, closed_port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While another bootstrap server may come up, kfetch retries. The error is the certificate."""
    secured(kafka, tmp_path, "127.0.0.1", days=-1)
    addresses = (("127.0.0.1", closed_port), ("127.0.0.1", kafka.nodes[1].port))
    with pytest.raises(TlsFailed, match="no success in"):
        Cluster(addresses, OPTIONS, patient=False).view(["t"], soon(0.3))

    assert kafka.nodes[1].connections > 1
    assert any("has a certificate that has expired" in text for text in caplog.messages)


def test_a_leader_with_another_name_fails_at_once(
    kafka: LittleKafka, connect: Connect, tmp_path: Path
) -> None:
    """A certificate for the bootstrap name and not for the advertised one fails the start."""
    secured(kafka, tmp_path, "localhost")
    cluster = connect(host="localhost")
    with pytest.raises(TlsFailed, match=r"for other names than 127\.0\.0\.1") as caught:
        cluster.offsets(LATEST, soon())

    assert caught.value.retriable is False


def test_a_running_query_retries(kafka: LittleKafka, connect: Connect, tmp_path: Path) -> None:
    """Once leaders have answered, a certificate that expires is retried: someone renews it."""
    secured(kafka, tmp_path, "127.0.0.1")
    cluster = connect()
    cluster.offsets(LATEST, soon())
    node = kafka.nodes[1]
    node.stop()
    secured(kafka, tmp_path, "127.0.0.1", days=-1)
    node.start()
    asked = len(node.asked(ApiVersionsRequest))
    with pytest.raises(TlsFailed, match="no success in"):
        cluster.offsets(LATEST, soon(0.2))
    secured(kafka, tmp_path, "127.0.0.1")

    assert 1 == cluster.offsets(LATEST, soon())[T0].offset
    assert len(node.asked(ApiVersionsRequest)) > asked
