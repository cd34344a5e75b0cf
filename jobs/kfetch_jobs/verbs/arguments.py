"""Arguments that several verbs share: the project, its environment, the form of the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from kfetch_jobs.config import Project

ProjectPath = Annotated[
    Path | None,
    typer.Option(
        "--project",
        help="The project file, or its directory. Default: kfetch.yml here, in conf/, or above.",
    ),
]
JobName = Annotated[str, typer.Argument(help="The name of the job. Its file is jobs/NAME.yml.")]
Environment = Annotated[
    str | None,
    typer.Option("--env", help="A file of env/, without .yml. Default: KFETCH_ENV, or none."),
]


def project_of(
    project: Path | None, environment: str | None, snapshot: Path | None = None
) -> Project:
    """Read the named project, or the one of this directory. Raises ConfigError for its mistakes.

    ``snapshot``: texts that count in place of the project's files.
    """
    from kfetch_jobs import config
    from kfetch_jobs.config.snapshot import read_snapshot

    texts = read_snapshot(snapshot) if snapshot else {}
    path = config.located(project) if project else config.find(Path.cwd())
    return config.load(path, environment=environment, texts=texts)


def with_project(verb: Callable[..., None]) -> Callable[..., None]:
    """Returns a verb as a command: for its ``project``, --project and --env say what to load."""

    @wraps(verb)
    def command(project: Path | None, environment: str | None, **values: Any) -> None:
        verb(project=project_of(project, environment), **values)

    options = {"project": ProjectPath, "environment": Environment}
    command.__annotations__ = verb.__annotations__ | options
    hints = get_type_hints(command, include_extras=True)  # what Typer reads, as is the signature
    parameters = [
        parameter.replace(name=name, annotation=hints[name], default=None)
        if name in options
        else parameter.replace(annotation=hints[name])
        for parameter in signature(verb).parameters.values()
        for name in (options if parameter.name == "project" else [parameter.name])
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command
