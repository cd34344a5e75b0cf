"""``kfetch doctor``: what fits, what does not, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kfetch_jobs.verbs.arguments import Environment, Json, ProjectFile, project_of

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project
    from kfetch_jobs.looks.doctor import Finding

__all__ = ["doctor"]


def doctor(
    project: ProjectFile = None, environment: Environment = None, as_json: Json = False
) -> None:
    """Look at what jobs need: Python, Java, packages, decoder, file limits, storage, clusters.

    Each line is ok, warn or fail, with what to do. Outside of a project it looks at the machine
    alone. A broker that answers nobody is waited for, ten seconds. Exits with 1 if something fails.

    \b
    Example: in an image, before it is shipped
      kfetch doctor || exit 1
    """
    from kfetch_jobs.looks.doctor import State

    failed = False
    found = []
    for finding in _findings(project, environment):
        failed = failed or finding.state is State.FAIL
        if as_json:
            found.append(asdict(finding))
        else:
            typer.echo(_line(finding))
    if as_json:
        typer.echo(json.dumps(found))
    raise typer.Exit(1 if failed else 0)


def _findings(path: Path | None, environment: str | None) -> Iterator[Finding]:
    from kfetch_jobs.looks.doctor import examine

    found, broken = _project(path, environment)
    yield from examine(found)
    if broken is not None:
        yield broken


def _project(path: Path | None, environment: str | None) -> tuple[Project | None, Finding | None]:
    """The project, if there is one; and what is wrong with it."""
    from kfetch_jobs import config
    from kfetch_jobs.errors import ConfigError
    from kfetch_jobs.looks.doctor import Finding, State

    if path is None and environment is None:
        try:
            path = config.find(Path.cwd())
        except ConfigError:
            told = "there is none here: its storage and clusters were not looked at"
            advice = "name its file with --project"
            return None, Finding(state=State.WARN, what="project", told=told, advice=advice)
    try:
        return project_of(path, environment), None
    except ConfigError as error:
        advice = "kfetch validate tells all"
        return None, Finding(state=State.FAIL, what="project", told=error.message, advice=advice)


def _line(finding: Finding) -> str:
    told = f"{finding.state:<5} {finding.what}: {finding.told}"
    return f"{told}; {finding.advice}" if finding.advice else told
