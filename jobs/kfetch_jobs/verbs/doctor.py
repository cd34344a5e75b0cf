"""``kfetch doctor``: checks the machine and the project, and says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.verbs.arguments import Environment, ProjectPath, project_of

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project
    from kfetch_jobs.doctor import Finding


def doctor(
    project: ProjectPath = None, environment: Environment = None, as_json: Json = False
) -> None:
    """Check what jobs need: Python, Java, packages, decoder, file limits, storage, clusters.

    Each line says ok, warn or fail, and what you can do. Outside of a project, kfetch checks the
    machine alone. It waits up to ten seconds for a silent broker. It exits with 1 if a check fails.

    \b
    Example: check an image before you ship it
      kfetch doctor || exit 1
    """
    from kfetch_jobs.doctor import Grade

    findings = []
    for finding in _findings(project, environment):
        findings.append(finding)
        if not as_json:
            typer.echo(_line(finding))
    if as_json:
        typer.echo(json.dumps([finding.to_json() for finding in findings]))
    raise typer.Exit(1 if any(finding.grade is Grade.FAIL for finding in findings) else 0)


def _findings(path: Path | None, environment: str | None) -> Iterator[Finding]:
    from kfetch_jobs.doctor import examine

    loaded, mistake = _project(path, environment)
    yield from examine(loaded)
    if mistake is not None:
        yield mistake


def _project(path: Path | None, environment: str | None) -> tuple[Project | None, Finding | None]:
    """Returns the project if it loads, and else a finding that says why it does not."""
    from kfetch_jobs import config
    from kfetch_jobs.doctor import Finding, Grade
    from kfetch_jobs.errors import ConfigError

    if path is None and environment is None:
        try:
            path = config.find(Path.cwd())
        except ConfigError:
            text = "there is none here: kfetch checked no storage and no cluster"
            return None, Finding(Grade.WARN, "project", text, "name its file with --project")
    try:
        return project_of(path, environment), None
    except ConfigError as error:
        advice = "kfetch validate lists all mistakes"
        return None, Finding(Grade.FAIL, "project", error.message, advice)


def _line(finding: Finding) -> str:
    line = f"{finding.grade:<5} {finding.subject}: {finding.text}"
    return f"{line}; {finding.advice}" if finding.advice else line
