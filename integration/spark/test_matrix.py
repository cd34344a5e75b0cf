"""The connector's matrix of subscriptions, starts and failOnDataLoss: records by their offsets.

The queries of a group run at the same time. The long tests run Spark's own connector beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.conftest import TopicFactory
from integration.spark.matrix import ADDED, CASES, PARTITIONS, Case, old_records, one_more
from integration.streams import Delivered, wait_until
from kfetch_jobs.kafka import Cluster
from tests.parity.cases import connector_cases

pytestmark = pytest.mark.integration

SUITE = "KafkaSourceSuiteBase"
QUICK = [
    ("assign", "specific offsets", True),
    ("subscribe", "latest offsets", False),
    ("subscribePattern", "global timestamp per topic", True),
]
GROUPS = [
    pytest.param(
        [c for c in CASES if (c.subscription, c.fail_on_data_loss) == (subscription, fails)],
        id=f"{subscription}-{fails}",
    )
    for subscription in ("assign", "subscribe", "subscribePattern")
    for fails in (True, False)
]


class Run:
    """A case's query, which can be stopped and started again at its checkpoint."""

    def __init__(self, source: str, case: Case, frame: DataFrame, checkpoint: Path) -> None:
        self.name = f"{source}: {case.name}"
        self._case = case
        self._frame = frame.select("partition", "offset")
        self._checkpoint = checkpoint
        # A micro-batch that runs again replaces its first run, as in a sink that knows batch ids.
        self._delivered = Delivered()
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query, and wait until it has fixed the offsets at which it starts.

        Spark gives the process of a source ten seconds to begin, so queries start one by one.
        """
        writer = self._frame.writeStream.foreachBatch(self._delivered.take)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        self._query = writer.trigger(processingTime="200 milliseconds").start()
        self._query.processAllAvailable()

    def wait_for(self, end: int, added_end: int = 0) -> None:
        """Wait for as many records as the ends allow, and compare them with the expected ones."""
        expected = self._case.places(end, added_end)
        wait_until(lambda: len(self.places) >= len(expected), self._query, self.name)
        assert expected == self.places, self.name

    @property
    def places(self) -> list[tuple[int, int]]:
        """The (partition, offset) of each record of all runs, once for each delivery."""
        return self._delivered.places

    def stop(self) -> None:
        """Stop the query if it runs."""
        if self._query is not None:
            self._query.stop()


@contextmanager
def started(runs: list[Run]) -> Iterator[None]:
    """Runs all queries within the context."""
    try:
        for run in runs:
            run.start()
        yield
    finally:
        for run in runs:
            run.stop()


def follow(cluster: Cluster, topics: list[str], runs: list[Run]) -> None:
    """Take the queries through the steps of the connector's test, and compare the records.

    Records come while the queries run, while they are stopped, and in partitions that are added.
    """
    with started(runs):
        one_more(cluster, topics, PARTITIONS)
        for run in runs:
            run.wait_for(6)
    one_more(cluster, topics, PARTITIONS)
    with started(runs):
        for run in runs:
            run.wait_for(7)
        add_partitions(cluster, topics)
        one_more(cluster, topics, [*PARTITIONS, *ADDED])
        for run in runs:
            run.wait_for(8, added_end=1)
    for run in runs:
        run.wait_for(8, added_end=1)  # stopping has delivered nothing twice


def add_partitions(cluster: Cluster, topics: list[str]) -> None:
    """Give each topic its new partitions."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_partitions(dict.fromkeys(topics, ADDED.stop))


@pytest.fixture
def make(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> Callable[..., tuple[list[str], list[Run]]]:
    """Returns a function that makes topics for cases, and the queries of the sources over them."""

    def prepare(cases: list[Case], *sources: str) -> tuple[list[str], list[Run]]:
        assert {(SUITE, case.name) for case in cases} <= connector_cases()
        topics = [topic(len(PARTITIONS), retention_ms=-1) for _ in cases]
        old_records(kafka, topics)
        runs = []
        for case, name in zip(cases, topics, strict=True):
            for source in sources:
                frame = load(spark, kafka, source, case.options(name))
                runs.append(Run(source, case, frame, tmp_path / f"{source}-{name}"))
        return topics, runs

    return prepare


def load(spark: SparkSession, cluster: Cluster, source: str, options: dict[str, Any]) -> DataFrame:
    """Returns a stream of kfetch or of the connector."""
    texts = {name: str(value) for name, value in options.items()}
    reader = spark.readStream.format(source).options(**texts)
    return reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "assign from specific offsets (failOnDataLoss: true)",
    "subscribing topic by name from latest offsets (failOnDataLoss: false)",
    "subscribing topic by pattern from global timestamp per topic (failOnDataLoss: true)",
)
def test_three_of_the_matrix(
    kafka: Cluster, make: Callable[..., tuple[list[str], list[Run]]]
) -> None:
    """A query reads from its start: records that arrive, records that came while it was stopped,
    and partitions that are added."""
    chosen = [
        case
        for case in CASES
        if (case.subscription, case.start.name, case.fail_on_data_loss) in QUICK
    ]
    assert len(QUICK) == len(chosen)
    topics, runs = make(chosen, "kfetch")

    follow(kafka, topics, runs)


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "assign from *",
    "subscribing topic by name from * (failOnDataLoss: *)",
    "subscribing topic by pattern from * (failOnDataLoss: *)",
)
@pytest.mark.long
@pytest.mark.usefixtures("connector")
@pytest.mark.parametrize("cases", GROUPS)
def test_the_matrix(
    kafka: Cluster, make: Callable[..., tuple[list[str], list[Run]]], cases: list[Case]
) -> None:
    """From each start, kfetch and the connector deliver the same records. Some arrive during a run,
    some while the query is stopped, and some in partitions that are added."""
    topics, runs = make(cases, "kfetch", "kafka")

    follow(kafka, topics, runs)
