"""The examples of secure connections in the documentation are valid options and valid projects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kfetch.options import parse
from kfetch_jobs import config
from kfetch_jobs.jvm.spark import REDACTION
from tests.kfetch_jobs.projects import JOB

ROOT = Path(__file__).parent.parent
SECRET = "hunter2-hunter2"
NAMES = ("tls", "scram", "oidc", "msk")


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of secrets that the examples name, below the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets").mkdir()
    for name in ("kafka-password", "oidc"):
        path = tmp_path / "secrets" / name
        path.touch(mode=0o600)
        path.write_text(f"{SECRET}\n")


def readme_examples() -> dict[str, dict[str, str]]:
    """Runs the README's section, and returns the options that it makes."""
    text = (ROOT / "README.md").read_text()
    section = text.split('<a id="secure-connections"></a>')[1].split("\n**How far")[0]
    made: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, made)
    return {name: made[name] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_readmes_options_are_valid(name: str) -> None:
    """The source accepts each example, ignores no option, and shows no secret."""
    options = parse({**readme_examples()[name], "subscribe": "clicks"})

    assert () == options.ignored
    assert options.network.security.tls is not None
    assert (options.network.security.sasl is not None) is (name != "tls")
    assert SECRET not in repr(options)


def test_the_project_of_jobs_md_is_valid(tmp_path: Path) -> None:
    """A project with JOBS.md's clusters has valid jobs, without a warning and without a secret."""
    section = (ROOT / "JOBS.md").read_text().split("**Secured clusters.**")[1]
    (clusters,) = re.findall(
        r"```yaml\n(clusters:.*?)```", section.split("**Secrets**")[0], re.DOTALL
    )
    (tmp_path / "jobs").mkdir()
    (tmp_path / "kfetch.yml").write_text(f"storage: data\n{clusters}")
    for cluster in ("main", "shared"):
        text = JOB.replace("cluster: local", f"cluster: {cluster}")
        (tmp_path / "jobs" / f"{cluster}.yml").write_text(text)
    project = config.load(tmp_path / "kfetch.yml", {})

    for job in project.check().values():
        assert SECRET in job.source_options().values()
        assert [] == [one for document in job.documents for one in document.warnings]
        assert SECRET not in repr(job) + repr(project)


def test_sparks_redaction_is_documented() -> None:
    """docs/explanation/security.md has the setting that jobs have."""
    text = (ROOT / "docs/explanation/security.md").read_text()

    assert f"spark.redaction.regex  {REDACTION}\n" in text
