"""Both wheels, an environment with them, and a user's directory with packages of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.running.commands import Project
from integration.wheels.environment import ARCHIVED_SPARK, Environment, install, uv
from kfetch_jobs.kafka import Cluster


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both wheels and both sdists."""
    directory = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--all-packages", "--out-dir", str(directory))
    return directory


@pytest.fixture(scope="session")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with ``kfetch[jobs]``."""
    return install(tmp_path_factory.mktemp("all") / "venv", wheels, "kfetch[jobs]")


@pytest.fixture
def user_directory(tmp_path: Path) -> Path:
    """A directory with the user's own packages, which have the names of kfetch's folders."""
    for package in ("jobs", "spark_source", "conf"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("OWNER = 'the user'\n")
    (tmp_path / "jobs.py").write_text("raise RuntimeError('a package comes before a module')\n")
    return tmp_path


@pytest.fixture
def project(
    environment: Environment, user_directory: Path, kafka: Cluster, topic: Callable[..., str]
) -> Iterator[Project]:
    """A new project beside the user's packages. Its supervisor ends with the test.

    The transform is ``jobs.shapes:clicks``, in the user's package.
    """
    variables = {**environment.variables(user_directory), **ARCHIVED_SPARK}
    variables["PYTHONPATH"] = str(user_directory)
    command = [str(environment.bin / "kfetch")]
    project = Project(user_directory, kafka, command=command, environ=variables)
    project.kfetch("init", ".")
    job = user_directory / "jobs" / "clicks.yml"
    text = job.read_text().replace("subscribe: clicks", f"subscribe: {topic(2)}")
    job.write_text(text.replace("transforms:clicks", "jobs.shapes:clicks"))
    yield project
    project.kfetch("down", "--now")
