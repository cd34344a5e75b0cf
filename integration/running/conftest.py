"""Projects that are supervised for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.running.commands import Project
from kfetch_jobs.kafka import Cluster


@pytest.fixture
def supervised_project(
    tmp_path: Path, kafka: Cluster, topic: Callable[..., str]
) -> Iterator[Project]:
    """A new project, at the tests' broker, whose supervisor ends with the test."""
    made = Project(tmp_path / "shop", kafka)
    made.directory.mkdir()
    made.kfetch("init", ".")
    file = made.directory / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("subscribe: clicks", f"subscribe: {topic(2)}"))
    yield made
    made.kfetch("down", "--now")
