"""The root of the command line, on which every verb is mounted.

What verbs drive is imported when one is used, so that ``kfetch --help`` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import typer
from typer.main import get_command

from jobs.kafka.cli import app as broker
from jobs.verbs import doctor, files, looking, offsets, running, standing, supervising, tools

__all__ = ["command"]


@cache
def command() -> Callable[..., Any]:
    """The whole command line, a click command: typer takes 50 ms to make it of the annotations."""
    return get_command(_app())


def _app() -> typer.Typer:
    app = typer.Typer(
        name="kfetch",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Jobs that stream from Kafka with Spark, and a local Kafka to try them on.",
    )
    # A default, not Annotated: typer could not evaluate an annotation that names a local.
    option = typer.Option(False, "--version", help="Print the version.", callback=_version)

    @app.callback()
    def root(version: bool = option) -> None:
        pass

    app.command(short_help="A job killed midway, and every event counted.")(tools.demo)
    app.command(short_help="Make a project that works.")(files.init)
    app.command(short_help="Check every file of the project.")(files.validate)
    app.command(short_help="JSON Schema of the files, for editors.")(files.schema)
    app.command(short_help="Run one job here.")(running.run)
    supervising.add(app)
    looking.add(app)
    standing.add(app)
    app.add_typer(offsets.app, name="offsets", short_help="Where a job stands; move it.")
    app.command(short_help="What on this machine fits, and what does not.")(doctor.doctor)
    app.command(short_help="The agents of this machine and their sessions.")(tools.agents)
    app.command(short_help="Compile the record decoder now, for images.")(tools.warm)
    app.add_typer(broker, name="broker", short_help="A real Kafka on this machine, to try things.")
    return app


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"kfetch {version('kfetch')}")
        sys.exit(0)
