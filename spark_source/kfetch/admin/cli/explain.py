"""The verb ``kfetch explain``: the page of an error, from the installed package."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    code: Annotated[
        str, typer.Argument(metavar="[CODE]", help="The code at the end of an error.")
    ] = "",
) -> None:
    """Print the page of an error: what happened, how to look, what to do.

    An error ends with its code in brackets, as in [LOG_TRUNCATED]. A code with two parts, as in
    [RECORDS_LOST.LOG_TRUNCATED], has two pages. Without a code the command lists all codes. It
    needs no network.

    \b
    Example: the page of an error
      kfetch explain LOG_TRUNCATED
    """
    from kfetch.admin import explanations

    if code:
        pages = "\n".join(map(explanations.page, explanations.code_classes(code)))
        typer.echo(explanations.without_links(pages), nl=False)
        return
    for kind in sorted(explanations.classes(), key=lambda kind: kind.condition):
        typer.echo(f"{kind.condition}: {explanations.meaning_and_action(kind)[0]}")
