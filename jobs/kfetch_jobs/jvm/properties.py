"""Gives Spark its settings in a file, because every user of a machine sees a process's arguments.

PySpark would pass each setting to ``spark-submit`` as ``--conf NAME=VALUE``, and so to the JVM. The
file is its owner's alone (0600), and exists only while Spark starts. After a kill the supervisor
removes it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kfetch_jobs.util.files import owner_only

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""``spark-submit`` sets this variable for a program that it starts. Its JVM runs already."""
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_SPECIAL = re.compile(r"[^A-Za-z0-9._/,*()\[\]-]")


def settings_path(log: Path) -> Path:
    """Returns the path of the file for the Spark that writes this log. Each log has its own."""
    return log.with_name(f".{log.stem}.properties")


@contextmanager
def settings_file(path: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Let a Spark that starts in the block take its settings from the file ``path``.

    Spark's own ``spark-defaults.conf`` still counts, and ``settings`` override it.
    """
    path.unlink(missing_ok=True)  # a killed run may have left its own
    before = os.environ.get(_ARGUMENTS)
    try:
        with open(owner_only(os.fspath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write(properties_text(settings))
        ours = f"--properties-file {shlex.quote(os.fspath(path))} --load-spark-defaults"
        os.environ[_ARGUMENTS] = f"{ours} {before or _SHELL}"
        yield
    finally:
        if before is None:
            os.environ.pop(_ARGUMENTS, None)
        else:
            os.environ[_ARGUMENTS] = before
        with suppress(OSError):
            path.unlink()


def properties_text(settings: Mapping[str, str]) -> str:
    """Returns settings as a file of Java's ``Properties.load``."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    """The text with UTF-16 code units in place of all characters that may mean something else.

    Spark reads the file in an encoding of its own.
    """
    return _SPECIAL.sub(lambda found: _code_units(found[0]), text)


def _code_units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
