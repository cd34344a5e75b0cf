"""Options of a source on the command line: ``--option NAME=VALUE`` and ``--properties FILE``.

Every user of a machine sees the arguments of a command. So ``--option`` refuses options whose
values may be secret. Errors show no text that may be a password in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import typer

CONNECTIONS = ("kafka.", "kfetch.")
REGISTRIES = (*CONNECTIONS, "schema.registry.", "value", "key")
"""The starts of names of options."""

_STARTING_GROUP = "kfetch.startinggroup"
_SECRET = re.compile(r"(?i)passw|secret|jaas|token$|user\.info$|keystore\.key$|endpoint\.url$")
"""Names of options whose values may have secrets."""
_PREFIXED = re.compile(r"(?i)(kafka|kfetch|schema\.registry)\.[\w.-]+")


def source_options(
    properties: Path | None, pairs: Sequence[str], *, prefixes: tuple[str, ...] = ("",)
) -> dict[str, str]:
    """Returns the options of the file, then those of the command line, which override them.

    Names of the command line come in lower case. ``prefixes``: take only options that begin with
    one of them. A query's own file may have others, which are left out. Raises OptionError for a
    file that can't be read, and BadParameter for a wrong pair.
    """
    from kfetch.admin.cli.properties import read_properties

    of_file = read_properties(properties) if properties else {}
    options = {name: text for name, text in of_file.items() if name.lower().startswith(prefixes)}
    for name, value in map(_pair, pairs):
        if not name.lower().startswith(prefixes):
            raise _wrong(f"{_shown(name)} does not begin with {' or '.join(prefixes)}")
        options[name.lower()] = value
    return options


def cluster_options(
    servers: str,
    properties: Path | None,
    pairs: Sequence[str],
    prefixes: tuple[str, ...] = CONNECTIONS,
) -> dict[str, str]:
    """Returns ``source_options`` with the bootstrap servers, which one of the three must name.

    A group where a query starts is left out, because it means nothing without ``startingOffsets``.
    """
    given = source_options(properties, pairs, prefixes=prefixes)
    options = {name: text for name, text in given.items() if name.lower() != _STARTING_GROUP}
    if servers:
        options["kafka.bootstrap.servers"] = servers
    if "kafka.bootstrap.servers" not in options:
        raise typer.BadParameter("name HOST:PORT, or a file with bootstrap.servers")
    return options


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals:
        raise _wrong("a value is not NAME=VALUE")
    if _SECRET.search(name):
        raise _wrong(
            f"{_shown(name)} may be secret, and every user of this machine sees the arguments of a "
            "command: put it into a file for --properties"
        )
    return name, value.strip()


def _wrong(sentence: str) -> typer.BadParameter:
    return typer.BadParameter(sentence, param_hint="'--option'")


def _shown(name: str) -> str:
    """Returns an option's name for an error. A text that is no name may be a password."""
    from kfetch.admin.query import known_options

    names = {row.name for row in known_options(name)}
    is_known = name in names or f"kafka.{name}" in names
    return repr(name) if is_known or _PREFIXED.fullmatch(name) else "a name"
