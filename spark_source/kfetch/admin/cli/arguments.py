"""Arguments that several verbs share: the options of the source, and the form of the output."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer


def option_pairs(accepted: str) -> Any:
    """Returns the argument ``--option`` of a verb. ``accepted``: which options it takes."""
    return typer.Option(
        metavar="NAME=VALUE",
        help=f"{accepted}, such as kafka.security.protocol=SSL. No secrets. Repeat it for more "
        "options.",
    )


PropertiesFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with properties of Kafka's clients, such as passwords. It may have options of "
        "kfetch, too."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def print_result(as_json: bool, document: object, lines: Iterable[str]) -> None:
    """Print a verb's result: a document as JSON, or lines for people."""
    typer.echo(json.dumps(document) if as_json else "\n".join(lines))
