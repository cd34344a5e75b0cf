"""What Spark writes through S3A is what kfetch reads: the same objects by the same settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from integration.conftest import TopicFactory
from kfetch.admin.checkpoint import open_checkpoint, read_checkpoint
from kfetch_jobs.kafka import Cluster
from tests.store import Store, running_store

pytestmark = pytest.mark.integration


@pytest.fixture
def store() -> Iterator[Store]:
    with running_store() as running:
        yield running


@pytest.mark.parametrize(
    "name",
    ["a b/50%20", *(pytest.param(name, marks=pytest.mark.long) for name in ("ck", "größe:1"))],
)
def test_a_checkpoint_of_spark(
    kafka: Cluster, topic: TopicFactory, store: Store, name: str
) -> None:
    """Names, offsets and the query's state are the same on both sides, after a second run, too.

    Hadoop takes a URI's path as it is, with spaces, percent signs and colons.
    """
    clicks = topic(2)
    uri = f"s3a://lake/{name}"
    for count in (3, 4):
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(clicks, b"x", partition=number % 2)
        told = run(kafka, clicks, uri, store)
        checkpoint = read_checkpoint(open_checkpoint(uri, store.settings))

        end = checkpoint.end(0)
        assert end is not None
        assert told == end.to_json()
        assert not checkpoint.pending


def run(kafka: Cluster, topic: str, uri: str, store: Store) -> object:
    """Returns the end offset that Spark's progress has."""
    asked = {
        "servers": kafka.bootstrap_servers,
        "topic": topic,
        "checkpoint": uri,
        "settings": {**store.settings, "spark.hadoop.fs.s3a.endpoint.region": "us-east-1"},
    }
    done = subprocess.run(
        [sys.executable, "-m", "integration.storage.query", json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
