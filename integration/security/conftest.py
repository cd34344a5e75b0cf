"""One broker with every secured listener, for all tests of this folder, and topics on it.

secured       the broker; its PLAINTEXT listener is the administrator's
secret_topic  a topic with VALUES, which ``reader`` may read and ``denied`` may only describe
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from integration.records import write
from integration.secured import SecuredCluster
from integration.secured.listeners import LISTENERS
from integration.security.access import REAUTHENTICATION_MS, VALUES


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """One node with all listeners. Log-ins by SCRAM-SHA-256 without TLS last five seconds."""
    short = "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFETCH_BROKER_REQUESTS", "DEBUG")  # each request, with its user
        with SecuredCluster.start_secured(
            tmp_path_factory.mktemp("secured"), LISTENERS, {short: str(REAUTHENTICATION_MS)}
        ) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def secret_topic(secured: SecuredCluster) -> str:
    """A topic of one partition with VALUES."""
    from kafka import KafkaAdminClient

    name = f"secret-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=secured.bootstrap_servers) as admin:
        asked = {name: {"num_partitions": 1, "replication_factor": 1}}
        admin.create_topics(asked, wait_for_metadata=True)
    write(secured, name, VALUES)
    return name
