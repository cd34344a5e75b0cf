"""A broker is away while a job runs: what status and the job's log say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.nodes import start_node
from integration.running.clicks import EACH, produce
from integration.running.commands import Project
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.long
def test_the_only_broker_is_away(
    tmp_path: Path, kafka_cluster: Callable[..., Cluster], topic: TopicFactory
) -> None:
    """Status has one sentence, and no lag that nobody knows. The log has the outage and its end.
    After the outage the job goes on."""
    cluster = kafka_cluster(nodes=1)
    project = Project(tmp_path / "shop", cluster)
    project.directory.mkdir()
    project.kfetch("init", ".")
    file = project.directory / "jobs" / "clicks.yml"
    name = topic(2, cluster=cluster)
    file.write_text(file.read_text().replace("subscribe: clicks", f"subscribe: {name}"))
    produce(project, cluster, 0)
    try:
        project.kfetch("up", "--detach", "--listen", "none")
        project.until(lambda job: job["batch"] == 0 and job["lag"] == 0)
        cluster.nodes[0].kill()
        away = project.until(lambda job: job["unreachable"] and job["unhealthy"])
        assert (0, True) == (away["lag"], away["lag_at_least"])
        whole = project.until(
            lambda job: [one["name"][:12] for one in job["unreachable"]] == ["every broker"]
        )
        assert 1 == len(whole["unhealthy"])
        assert away["unreachable"][0]["since_at"] == whole["unreachable"][0]["since_at"]

        start_node(cluster, 1)
        project.until(lambda job: not job["unreachable"])
        produce(project, cluster, EACH)
        project.until(lambda job: job["batch"] > 0 and job["lag"] == 0)
        log = project.kfetch("logs", "clicks")
        assert "unreachable since 2" in log
        assert "can be reached again, after " in log
    finally:
        project.kfetch("down", "--now")
