"""Which project file the demo takes, and what its own project says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.demo.settings import BUNDLED_PROJECT, Settings, project_file
from kfetch_jobs.errors import ConfigError


def settings(project: Path = BUNDLED_PROJECT, **changed: object) -> Settings:
    return Settings(project=project, **changed)  # type: ignore[arg-type]


def test_the_demo_brings_its_own_project(project: Path, tmp_path: Path) -> None:
    """Without options the demo runs its own job, also inside a project; else the user's project."""
    own = project / "conf" / "kfetch.yml"
    other = tmp_path / "other.yml"

    assert BUNDLED_PROJECT == project_file(None, None, tmp_path)
    assert BUNDLED_PROJECT == project_file(None, None, project)
    assert own == project_file(None, "clicks", project)
    assert other == project_file(other, None, project)
    assert other == project_file(other, "clicks", project)


def test_a_job_needs_a_project(tmp_path: Path) -> None:
    """``--job`` outside of a project is a mistake that names kfetch.yml."""
    with pytest.raises(ConfigError, match=r"there is no kfetch\.yml"):
        project_file(None, "clicks", tmp_path)


def test_the_bundled_project_loads(tmp_path: Path) -> None:
    """Its job reads the demo's Kafka and writes below the demo's directory, whatever environment
    the user's shell names."""
    variables = settings().variables("127.0.0.1:9092", tmp_path)
    job = config.load(BUNDLED_PROJECT, {"KFETCH_ENV": "prod"} | variables).job("clicks")

    assert "127.0.0.1:9092" == job.source_options()["kafka.bootstrap.servers"]
    assert str(tmp_path / "clicks" / "table") == job.target.path
    assert str(tmp_path / "clicks" / "fetch") == job.source_options()["kfetch.statsDirectory"]


def test_a_project_of_the_user_keeps_its_environment(tmp_path: Path) -> None:
    """KFETCH_ENV counts for it, as for every other verb."""
    assert "KFETCH_ENV" not in settings(tmp_path / "kfetch.yml").variables("x:1", tmp_path)
