"""What a project's files ask for and will not get: told, and no mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT

JOINS_NONE = "group.id has no effect in kfetch: kfetch joins no consumer group"


@pytest.fixture
def warned(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A project with a consumer group in a job and in a cluster; what is to be said of it."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    own = JOB.replace("includeHeaders: true", "KAFKA.group.id: mine")
    own = own.replace("clicks/table", "orders/table")
    (project / "conf" / "jobs" / "orders.yml").write_text(own)
    (project / "conf" / "kfetch.yml").write_text(f"{PROJECT}    group.id: ours\n")
    return (
        f"conf/kfetch.yml:8: option {JOINS_NONE}",
        f"conf/jobs/orders.yml:6: option kafka.{JOINS_NONE}",
    )


def test_validate_warns_once(kfetch: Command, warned: tuple[str, str]) -> None:
    """Of an option without effect, at its own line, however many jobs have it; all is well."""
    said = "".join(f"kfetch: warning: {sentence}\n" for sentence in warned)
    assert (0, "2 jobs, no mistakes: clicks, orders\n", said) == kfetch("validate")

    code, out, said = kfetch("validate", "--json")
    assert (0, "") == (code, said)
    assert {"jobs": ["clicks", "orders"], "mistakes": [], "warnings": list(warned)} == (
        json.loads(out)
    )


def test_a_mistake_hides_no_warning(
    project: Path, kfetch: Command, warned: tuple[str, str]
) -> None:
    """What is told of the jobs that are right does not wait for the others."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(f"{JOB}a: 1\n")
    code, out, said = kfetch("validate")

    assert (2, "") == (code, out)
    assert f"kfetch: warning: {warned[1]}\n" in said
    assert "kfetch: conf/jobs/clicks.yml:14: the key a is not known" in said


def test_plan_warns(project: Path, kafka: LittleKafka, kfetch: Command) -> None:
    """What a run would log at its start is said before."""
    (project / "conf" / "kfetch.yml").write_text(f"{PROJECT}    group.id: ours\n")
    told = f"conf/kfetch.yml:8: option {JOINS_NONE}"
    code, out, said = kfetch("plan", "clicks")
    assert (0, f"kfetch: warning: {told}\n") == (code, said)
    assert "a run would read" in out

    assert [told] == json.loads(kfetch("plan", "clicks", "--json")[1])["warnings"]


def test_a_mistake_is_told_without_its_consequence(
    project: Path, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-in module of another mechanism is one mistake. Without its mechanism, the default one
    would not fit either."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = (
        "    security.protocol: SASL_PLAINTEXT\n"
        "    sasl.mechanism: PLAIN\n"
        f'    sasl.jaas.config: {module} required username="a" password="b";\n'
    )
    (project / "conf" / "kfetch.yml").write_text(f"{PROJECT}{login}")
    code, out, said = kfetch("validate")

    assert (2, "") == (code, out)
    assert 1 == said.count("LoginModule, but option")
