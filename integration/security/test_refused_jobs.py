"""A job with a wrong password, at a real broker that counts its log-ins."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration.running.commands import Project
from integration.secured import SecuredCluster
from integration.security.search import add_job, write_project
from integration.security.test_refusals import WITHIN_S, WRONG

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_wrong_password_costs_one_log_in(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path, verb: str
) -> None:
    """The command ends within seconds, with the cause's code. Spark does not start."""
    project = Project(tmp_path, secured)
    write_project(project, secured)
    add_job(project, "clicks", secret_topic)
    (tmp_path / "password").write_text(WRONG)
    log = secured.nodes[0].log
    before, began = log.stat().st_size, time.monotonic()
    refused = project.run(verb, "clicks")

    assert time.monotonic() - began < WITHIN_S
    assert 1 == refused.returncode
    assert "refuses the log-in of user reader by SCRAM-SHA-512" in refused.stderr
    assert refused.stderr.endswith("password in sasl.* [AUTHENTICATION_FAILED]\n")
    assert not (tmp_path / "storage/clicks/spark.log").exists()
    assert 1 == log.read_bytes()[before:].count(b"Failed authentication with /127.0.0.1")
