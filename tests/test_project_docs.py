"""The project that docs/how-to/project.md writes is valid after each of its steps."""

from __future__ import annotations

import re
from pathlib import Path

from kfetch_jobs import config
from tests.kfetch_jobs.projects import checked

TEXT = (Path(__file__).parent.parent / "docs/how-to/project.md").read_text()
FILES = re.findall(r"(?s)`([\w/.]+)`:\n\n```(?:yaml|json)\n(.*?)```", TEXT)
ENVIRON = {"KFETCH_BOOTSTRAP": "kafka.example:9094"}


def test_each_file_of_the_page_keeps_the_project_valid(tmp_path: Path) -> None:
    """A reader writes the files in the page's order. Once there is a job, each step is valid."""
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        jobs = checked(config.load(tmp_path / "kfetch.yml", ENVIRON))

        assert name == "kfetch.yml" or jobs
    assert ["clicks", "orders", "payments"] == [*jobs]
    assert len(FILES) == TEXT.count("```yaml") + TEXT.count("```json")


def test_the_pages_production_has_its_log_in(tmp_path: Path) -> None:
    """With the environment, the jobs have the page's storage, servers and password."""
    for name, text in (*FILES, ("secrets/kafka-password", "hunter2\n"), ("secrets/ca.pem", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = config.load(tmp_path / "kfetch.yml", {**ENVIRON, "KFETCH_ENV": "prod"})
    job = checked(project)["clicks"]
    options = job.source_options()

    assert "/srv/shop/tables/clicks" == job.target.path
    assert "kafka.example:9094" == options["kafka.bootstrap.servers"]
    assert "hunter2" == options["kafka.sasl.password"]
    assert f"{tmp_path}/secrets/ca.pem" == options["kafka.ssl.truststore.location"]
