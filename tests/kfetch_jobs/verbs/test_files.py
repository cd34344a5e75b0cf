"""``kfetch init`` and ``validate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kfetch_jobs.commands import Command


def test_a_new_project_is_right(kfetch: Command, shop: Path) -> None:
    """A new project is valid, has its schemas, and its .gitignore covers data and secrets."""
    assert (0, "1 job, no mistakes: clicks\n", "") == kfetch("validate")
    assert {"job.json", "project.json", "environment.json"} == {
        path.name for path in (shop / "schema").iterdir()
    }
    assert {".kfetch/", "secrets/"} <= set((shop / ".gitignore").read_text().splitlines())
    assert 2 == kfetch("init", str(shop))[0]


def test_validate_tells_all(kfetch: Command, shop: Path) -> None:
    """Every mistake is a line on stderr, or an element of JSON; the exit code is 2."""
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text() + "a: 1\nb: 2\n")
    code, _, said = kfetch("validate")
    assert 2 == code
    assert 2 == said.count("kfetch: jobs/clicks.yml:")

    code, out, _ = kfetch("validate", "--json")
    assert (2, 2) == (code, len(json.loads(out)["mistakes"]))


@pytest.mark.parametrize("text", ["sparc: {}\n", "a: ${env:NONE}\n", "clusters: [\n"])
def test_a_mistake_in_the_projects_file_hides_no_job(
    kfetch: Command, shop: Path, text: str
) -> None:
    """Both are listed. A mistake that depends on the project's file, such as an unknown cluster,
    comes up when that file is valid."""
    for name in ("kfetch.yml", "jobs/clicks.yml"):
        with (shop / name).open("a") as file:
            file.write(text if name == "kfetch.yml" else "tigger: 2s\nlimit: ${env:NOTHING}\n")
    (shop / "jobs" / "orders.yml").write_text("source: {cluster: lokal}\n")
    code, _, said = kfetch("validate")

    assert (2, True) == (code, said.startswith("kfetch: kfetch.yml:"))
    assert "jobs/clicks.yml:" in said
    assert "NOTHING is not set" in said
    assert "jobs/orders.yml:1: sink is missing" in said
    assert "lokal" not in said


def test_an_environment_must_have_its_variables(
    kfetch: Command, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--env chooses a file of env/."""
    monkeypatch.delenv("KFETCH_BOOTSTRAP", raising=False)

    assert 0 == kfetch("validate")[0]
    assert (
        "env/prod.yml:8: the environment variable KFETCH_BOOTSTRAP"
        in kfetch("validate", "--env", "prod")[2]
    )


@pytest.mark.parametrize(
    ("concurrency", "trigger", "warning"),
    [
        (3, "processingTime: 2 s", ""),
        (2, "availableNow: true", "2 jobs never end (clicks, orders): some never start"),
        (2, "processingTime: 2 s", "3 jobs never end (clicks, orders, visits): some never start"),
    ],
)
def test_validate_warns_of_jobs_without_room(
    kfetch: Command, shop: Path, concurrency: int, trigger: str, warning: str
) -> None:
    """Endless jobs that take all room leave none to other jobs, or even to each other."""
    text = (shop / "jobs" / "clicks.yml").read_text()
    (shop / "jobs" / "orders.yml").write_text(text.replace("tables/clicks", "tables/orders"))
    text = text.replace("processingTime: 2 seconds", trigger)
    (shop / "jobs" / "visits.yml").write_text(text.replace("tables/clicks", "tables/visits"))
    project = (shop / "kfetch.yml").read_text()
    project = project.replace("concurrency: 4", f"concurrency: {concurrency}")
    (shop / "kfetch.yml").write_text(project)
    code, _, said = kfetch("validate")

    assert (0, bool(warning)) == (code, "concurrency" in said)
    assert warning in said
