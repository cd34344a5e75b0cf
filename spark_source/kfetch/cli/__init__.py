"""``kfetch``: the command line. The only part of kfetch that imports typer.

Other distributions mount their verbs through entry points of the group ``kfetch.verbs``: each names
a function that takes the typer.Typer. So there is one command and one help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.main import get_command

from kfetch.errors import KfetchError

__all__ = ["command", "main"]


def main() -> None:
    """What the ``kfetch`` script calls. An expected error is one line on stderr and exit code 1."""
    try:
        command()(prog_name="kfetch")
    except KfetchError as error:
        print(f"kfetch: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))


@cache
def command() -> Callable[..., Any]:
    """The whole command line, a click command: typer takes 50 ms to make it of the annotations."""
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

    for mount in entry_points(group="kfetch.verbs"):
        mount.load()(app)
    return get_command(app)


def _version(asked: bool) -> None:
    if asked:
        from kfetch import __version__

        print(f"kfetch {__version__}")
        sys.exit(0)
