"""A fetch request grows with the moved partitions, not with all of them: measured at a broker."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from integration.benchmarks.requests import MOVED, measure
from integration.conftest import TopicFactory
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_incremental_requests_follow_the_partitions_that_moved(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more of 1,000 partitions have new records, the larger is a request. Ten of them cost less
    than a twentieth of a full request. All of them cost about as much as one."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    curve = measure(kafka, topic(1000), tmp_path, moved=MOVED, batches=3)
    means = [point.mean_bytes for point in curve.points]

    assert 1000 == curve.partitions
    assert all(fewer < more for fewer, more in pairwise(means))
    assert means[0] < 0.05 * curve.full_request_bytes
    # Beside those that moved, a request names the partitions of the last one, to be forgotten.
    assert means[-1] < 1.1 * curve.full_request_bytes
