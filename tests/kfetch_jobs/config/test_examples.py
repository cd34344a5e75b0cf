"""The projects that are given to copy are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kfetch_jobs.commands import Command

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_examples_are_valid(kfetch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """``kfetch validate`` finds no mistake, and the README's table names each job."""
    monkeypatch.setenv("SPARK_MASTER", "spark://127.0.0.1:7077")
    for environment in ((), ("--env", "cluster")):
        code, _, said = kfetch("validate", "--project", str(EXAMPLES / "kfetch.yml"), *environment)
        assert 0 == code, said

    jobs = {path.stem for path in (EXAMPLES / "jobs").glob("*.yml")}
    assert jobs == set(re.findall(r"\]\(jobs/(\w+)\.yml\)", (EXAMPLES / "README.md").read_text()))
    assert 6 == len(jobs)
