"""The versions of Spark that are tested, and their order."""

from __future__ import annotations

from importlib import metadata

TESTED = ("4.0.5", "4.1.4", "4.2.0", "4.2.1", "4.3.0")
"""The newest patch of each minor version, and the version of the lock file."""


def installed() -> tuple[int, ...]:
    """Returns the version of the installed pyspark as numbers, to compare."""
    return parsed(metadata.version("pyspark"))


def parsed(version: str) -> tuple[int, ...]:
    """Returns ``(4, 2, 1)`` for ``4.2.1``."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
