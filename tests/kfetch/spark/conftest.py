"""A little Kafka for the classes that Spark calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kfetch.model import TopicPartition
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Topic t with three records."""
    with LittleKafka() as running:
        running.create("t")
        running.log(TopicPartition("t", 0)).append(b"a", b"b", b"c")
        yield running
