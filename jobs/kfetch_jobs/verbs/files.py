"""``kfetch init``, ``validate`` and ``schema``: a project's files, without Kafka and Spark."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import counted
from kfetch_jobs.verbs.arguments import Environment, ProjectPath, project_of
from kfetch_jobs.verbs.text import warn


def init(
    directory: Annotated[
        Path, typer.Argument(help="The project's directory. kfetch makes it if it is missing.")
    ],
    as_json: Json = False,
) -> None:
    """Make a working project: a job, a transform, an environment, a README.

    The command overwrites no file.

    \b
    Example: make a project, and start a broker to try it with
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
    typer.echo(f"next: cd {directory} && kfetch validate (README.md has the next steps)", err=True)


def validate(
    project: ProjectPath = None, environment: Environment = None, as_json: Json = False
) -> None:
    """Check every file of the project, without Kafka and Spark, and list all mistakes.

    The command exits with 2 if there is a mistake. It warns of options without effect, and of more
    jobs without an end than concurrency gives room to. The variables and secrets that the files
    name must exist. A job must not have lost its checkpoint. kfetch must be able to hold a lease on
    it. After a mistake in the project's file, it checks each job's file alone.

    \b
    Example: check files in continuous integration, with invented secrets
      KFETCH_BOOTSTRAP=localhost:9092 kfetch validate --env prod
    """
    from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
    from kfetch_jobs.checkpoints.location import lease_refusal
    from kfetch_jobs.config.cross_checks import room_warnings
    from kfetch_jobs.config.source_options import option_warnings
    from kfetch_jobs.errors import ConfigError

    names, warnings = list[str](), list[str]()
    try:
        loaded = project_of(project, environment)
        names = loaded.jobs()
        jobs, mistakes = loaded.jobs_and_mistakes()
        enabled = (job for job in jobs.values() if job.file.enabled)
        refusals = ((lease_refusal(job), fresh_start_refusal(job)) for job in enabled)
        mistakes += filter(None, chain.from_iterable(refusals))
        lines = [line for job in jobs.values() for line in option_warnings(job)]
        lines += room_warnings(jobs.values(), loaded.file.concurrency)
        warnings = list(dict.fromkeys(lines))
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
        Literal["job", "project", "environment"], typer.Argument(help="The kind of file.")
    ] = "job",
    write: Annotated[
        Path | None, typer.Option(help="Write all three schemas into this directory instead.")
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of file. Editors use it to complete and check YAML.

    \b
    Example: write the schemas that the first lines of a new project's files name
      kfetch schema --write schema
    """
    if write is None:
        from kfetch_jobs.config.schema import schema as schema_of

        typer.echo(json.dumps(schema_of(kind), indent=2))
        return
    from kfetch_jobs.config.starter import write_schemas

    for path in write_schemas(write):
        typer.echo(path)
