"""Arguments that several verbs share: the project, its environment, the form of the output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
