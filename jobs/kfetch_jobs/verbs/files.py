"""``kfetch init``, ``validate`` and ``schema``: a project's files, without Kafka or Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from kfetch_jobs.util.plural import counted
from kfetch_jobs.verbs.arguments import Environment, Json, ProjectFile, project_of
from kfetch_jobs.verbs.text import warn

__all__ = ["init", "schema", "validate"]


def init(
    directory: Annotated[Path, typer.Argument(help="Where the project goes; made if missing.")],
    as_json: Json = False,
) -> None:
    """Make a project that works: a job, a transform, an environment, a README.

    Nothing that is there is overwritten.

    \b
    Example: a project beside a broker to try it with
      kfetch init shop && cd shop
      kfetch broker start --port 9092
      kfetch up
    """
    from kfetch_jobs.config.starter import create_project

    written = create_project(directory)
    if as_json:
        typer.echo(json.dumps({"files": [str(path) for path in written]}))
        return
    for path in written:
        typer.echo(path)
    typer.echo(f"next: cd {directory} && kfetch validate (README.md tells the rest)", err=True)


def validate(
    project: ProjectFile = None, environment: Environment = None, as_json: Json = False
) -> None:
    """Check every file of the project, without Kafka and Spark, and tell all mistakes.

    Exits with 2 if there is one. Options that have no effect are warnings. Variables and secrets
    that the files name must be there.

    \b
    Example: in continuous integration, with made-up secrets
      KFETCH_BOOTSTRAP=localhost:9092 kfetch validate --env prod
    """
    from kfetch_jobs.config.source_options import option_warnings
    from kfetch_jobs.errors import ConfigError

    names, warnings = list[str](), list[str]()
    try:
        found = project_of(project, environment)
        names = found.jobs()
        jobs, mistakes = found.jobs_and_mistakes()
        warnings = list(
            dict.fromkeys(warning for job in jobs.values() for warning in option_warnings(job))
        )
    except ConfigError as error:
        mistakes = [*error.mistakes]
    if as_json:
        typer.echo(json.dumps({"jobs": names, "mistakes": mistakes, "warnings": warnings}))
    else:
        warn(warnings)
        for mistake in mistakes:
            typer.echo(f"kfetch: {mistake}", err=True)
    if mistakes:
        raise typer.Exit(ConfigError.exit_code)
    if not as_json:
        listed = ", ".join(names) or "write one in jobs/"
        typer.echo(f"{counted(len(names), 'job')}, no mistakes: {listed}")


def schema(
    kind: Annotated[
        Literal["job", "project", "environment"], typer.Argument(help="Which kind of file.")
    ] = "job",
    write: Annotated[
        Path | None, typer.Option(help="Write all three into this directory instead.")
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of file, for editors that complete and check YAML.

    \b
    Example: for a project whose files name them in their first lines
      kfetch schema --write schema
    """
    if write is None:
        from kfetch_jobs.config.schema import schema as schema_of

        typer.echo(json.dumps(schema_of(kind), indent=2))
        return
    from kfetch_jobs.config.starter import write_schemas

    for path in write_schemas(write):
        typer.echo(path)
