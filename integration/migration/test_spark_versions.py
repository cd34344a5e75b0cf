"""A checkpoint goes from the oldest Spark to the newest one and back, while records arrive."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.migration.test_migration import (
    Arrivals,
    assert_complete,
    process,
    rows,
    run,
)
from integration.sessions import checkpoints_in_files
from integration.spark_versions.environments import python
from integration.sparks import VERSIONS
from kfetch.admin.checkpoint import read_checkpoint
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]


@pytest.mark.timeout(1200)
def test_there_and_back_between_versions(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each version is killed within a micro-batch, and the other one ends it. Each record is in one
    micro-batch, and a batch that ran again had the same rows."""
    name = topic(3)
    arrivals = Arrivals(kafka, name)

    def step(version: str, **asked: Any) -> int:
        given = run([["kfetch", name]], **asked)
        return process(kafka, tmp_path, [given], python(version), **checkpoints_in_files(version))

    with arrivals.running():
        for version, when in [(OLDEST, "before"), (NEWEST, "after"), (OLDEST, "after")]:
            arrivals.wait_for(350)
            died = step(version, die={"in": 1, "when": when})
            assert -signal.SIGKILL == died, (version, (tmp_path / "log").read_text()[-2000:])
            assert read_checkpoint(tmp_path / "checkpoint").pending
        ended = step(NEWEST, maxOffsetsPerTrigger="100000")
        assert 0 == ended, (NEWEST, (tmp_path / "log").read_text()[-2000:])
        arrivals.wait_for(10)
    ended = step(OLDEST, maxOffsetsPerTrigger="100000")
    assert 0 == ended, (OLDEST, (tmp_path / "log").read_text()[-2000:])

    done = batches(tmp_path / "checkpoint", "commits")
    assert [*range(done[-1] + 1)] == done
    assert_complete(kafka, name, tmp_path, dict.fromkeys(range(3), 0))
    assert arrivals.sent == len(rows(tmp_path))
