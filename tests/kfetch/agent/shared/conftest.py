"""One little Kafka, one query, and a budget for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kfetch.agent.budget import Budget
from kfetch.agent.shared import SharedQuery
from tests.kfetch.agent.shared.helpers import BATCHES, T0, T1, options
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; two partitions of six batches with two records each."""
    with LittleKafka(1) as running:
        running.create("t", 2)
        for tp in (T0, T1):
            for n in range(BATCHES):
                running.log(tp).append(b"%d %da" % (tp.partition, n), b"b")
        yield running


@pytest.fixture
def budget() -> Budget:
    """More than the tests need."""
    return Budget(64 << 20)


@pytest.fixture
def query(kafka: LittleKafka, budget: Budget) -> Iterator[SharedQuery]:
    """A query's lanes."""
    with closing(SharedQuery("q", options(kafka), budget)) as shared:
        yield shared
