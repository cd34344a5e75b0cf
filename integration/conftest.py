"""Fixtures of the integration tests: a real Kafka, and topics in it.

kafka           one node, shared by the whole run: do not stop it
kafka_cluster   a factory of clusters of your own, to kill and to configure
topic           a factory of uniquely named topics
spark           one Spark session for the whole run, with Delta if possible: do not stop it
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from integration import class_archives
from kfetch_jobs.kafka import Cluster

with warnings.catch_warnings():
    # kafka-python reads its message schemas with functions that Python 3.11 deprecates (3.13
    # takes that back), and warnings are errors here.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Let JVMs start fast, and ignore two warnings of kafka-python."""
    class_archives.use()
    for pardon in (
        r"ignore:(read|open)_text is deprecated:DeprecationWarning",
        # It drops the socket of a refused connection (a killed node's) without closing it, and the
        # garbage collector says so in whichever test runs then. Such a socket has no peer.
        r"ignore:unclosed <socket.*laddr=\('0\.0\.0\.0', \d+\)>:ResourceWarning",
    ):
        config.addinivalue_line("filterwarnings", pardon)


_LONGEST = (
    "test_wheels.py",
    "test_other_stores.py",
    "test_two_supervisors.py",
    "test_frozen.py",
    "test_tables.py",
    "test_offsets.py",
    "test_straight.py",
    "test_sinks.py",
    "test_page.py",
    "test_call_order.py",
    "test_sessions.py",
    "test_killed_state.py",
    "test_store.py",
    "test_notebook.py",
    "test_examples.py",
)
"""Files whose tests take about a minute or more together, the longest first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, so that the processes of a run end at about the same time."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


AUTHORIZER: dict[str, object] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": True,
}
"""Properties of a broker where everybody may do everything to topics that no rule is about."""


class TopicFactory(Protocol):
    def __call__(
        self,
        partitions: int = 1,
        *,
        replicas: int = 1,
        cluster: Cluster | None = None,
        **configs: object,
    ) -> str: ...


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with test settings, for all tests of the run."""
    directory = tmp_path_factory.mktemp("kafka")
    with Cluster.start(directory, properties=_dotted(AUTHORIZER)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], with Delta on its class path if there is a Delta for this Spark."""
    from integration.sessions import started

    with started(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """``kafka_cluster(nodes=3, log_segment_bytes=2**20)``: a cluster for this test alone.

    In the names of properties an underscore stands for a dot.
    """
    with ExitStack() as clusters:

        def start(nodes: int = 3, **properties: object) -> Cluster:
            directory = tmp_path_factory.mktemp("cluster")
            cluster = Cluster.start(directory, nodes=nodes, properties=_dotted(properties))
            return clusters.enter_context(cluster)

        yield start


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> TopicFactory:
    """``topic(8, retention_ms=60000)``: the name of a new topic; every partition has its leader.

    In ``kafka``, or in ``cluster=`` when the test has its own.
    """

    def create(
        partitions: int = 1,
        *,
        replicas: int = 1,
        cluster: Cluster | None = None,
        **configs: object,
    ) -> str:
        owner = cluster or request.getfixturevalue("kafka")
        name = f"{_name(request.node.name)}-{uuid.uuid4().hex[:8]}"
        asked = {
            "num_partitions": partitions,
            "replication_factor": replicas,
            "configs": _dotted(configs),
        }
        with KafkaAdminClient(bootstrap_servers=owner.bootstrap_servers) as admin:
            admin.create_topics({name: asked}, wait_for_metadata=True)
        return name

    return create


def _dotted(values: dict[str, object]) -> dict[str, str]:
    return {key.replace("_", "."): _text(value) for key, value in values.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name(test: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", test)[:80]
