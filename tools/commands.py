"""The help of every verb, for docs/reference/commands.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfetch.cli import command

__all__ = ["text"]

_WIDTH = 86
"""In characters. The site shows lines of this length whole."""


def text() -> str:
    """Each verb's ``--help``, one after the other."""
    return "\n\n".join(_helps(command(), "kfetch", None)) + "\n"


def _helps(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    yield "\n".join([f"$ {context.command_path} --help", *lines])
    for verb in command.list_commands(context) if hasattr(command, "commands") else ():
        yield from _helps(command.commands[verb], verb, context)
