"""SIGKILL of a query with state: each count is right, and no record counts twice."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.migration.test_migration import Arrivals, process, rows, run
from integration.records import log_ends
from integration.sessions import checkpoints_in_files
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


@pytest.mark.timeout(600)
def test_kills_leave_the_state_right(kafka: Cluster, topic: TopicFactory, tmp_path: Path) -> None:
    """A query counts the records of each partition while they arrive. It is killed before its rows
    are written, and after that. A batch that ran again had the same rows, no count ever went back,
    and the last ones are the log ends."""
    name = topic(3)
    arrivals = Arrivals(kafka, name)
    with arrivals.running():
        for when in ("before", "after"):
            arrivals.wait_for(350)
            dies = run([["kfetch", name]], die={"in": 2, "when": when}) | {"counts": True}
            assert -signal.SIGKILL == process(kafka, tmp_path, [dies], **checkpoints_in_files()), (
                log(tmp_path)
            )
    ends = run([["kfetch", name]], maxOffsetsPerTrigger="100000") | {"counts": True}
    assert 0 == process(kafka, tmp_path, [ends], **checkpoints_in_files()), log(tmp_path)

    counts: dict[int, list[int]] = {}
    for _, partition, count in rows(tmp_path):
        counts.setdefault(partition, []).append(count)
    assert log_ends(kafka, name) == {p: listed[-1] for p, listed in counts.items()}
    assert all(listed == sorted(listed) for listed in counts.values())


def log(directory: Path) -> str:
    """Returns what the last process has printed."""
    return json.dumps((directory / "log").read_text()[-3000:])
