"""The examples of secure connections in the documentation are valid options and valid projects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kfetch.spark.options import parse
from kfetch_jobs import config
from kfetch_jobs.jvm.spark import REDACTION
from tests.kfetch_jobs.projects import JOB, checked

ROOT = Path(__file__).parent.parent
SECRET = "hunter2-hunter2"
HOW_TO = ROOT / "docs/how-to"


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of secrets that the examples name, below the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets").mkdir()
    for name in ("kafka-password", "oidc"):
        path = tmp_path / "secrets" / name
        path.touch(mode=0o600)
        path.write_text(f"{SECRET}\n")


def options_of(page: str, name: str) -> dict[str, str]:
    """Runs the code of a page, and returns the options that it makes under this name."""
    made: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (HOW_TO / page).read_text(), re.DOTALL):
        exec(block, made)
    return {**made[name]}


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("tls.md", "tls"),
        ("log-in-password.md", "scram"),
        ("log-in-password.md", "jaas"),
        ("log-in-tokens.md", "oidc"),
        ("log-in-msk.md", "msk"),
        ("log-in-kerberos.md", "kerberos"),
    ],
)
def test_the_options_of_a_page_are_valid(page: str, name: str) -> None:
    """The source accepts each example, ignores no option, and shows no secret."""
    options = parse({**options_of(page, name), "subscribe": "clicks"})

    assert () == options.ignored
    assert options.network.security.tls is not None
    assert (options.network.security.sasl is not None) is (name != "tls")
    assert SECRET not in repr(options)


def test_the_clusters_of_a_project_are_valid(tmp_path: Path) -> None:
    """A project with the clusters of docs/how-to/job-secrets.md has valid jobs.

    No warning and no secret shows."""
    text = (HOW_TO / "job-secrets.md").read_text()
    (clusters,) = re.findall(r"```yaml\n(clusters:.*?)```", text, re.DOTALL)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "kfetch.yml").write_text(f"storage: data\n{clusters}")
    for cluster in ("main", "shared"):
        text = JOB.replace("cluster: local", f"cluster: {cluster}")
        (tmp_path / "jobs" / f"{cluster}.yml").write_text(text)
    project = config.load(tmp_path / "kfetch.yml", {})

    for job in checked(project).values():
        assert SECRET in job.source_options().values()
        assert [] == [one for document in job.documents for one in document.warnings]
        assert SECRET not in repr(job) + repr(project)


def test_sparks_redaction_is_documented() -> None:
    """docs/explanation/security.md has the setting that jobs have."""
    text = (ROOT / "docs/explanation/security.md").read_text()

    assert f"spark.redaction.regex  {REDACTION}\n" in text
