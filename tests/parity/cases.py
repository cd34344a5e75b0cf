"""The names of the connector's test cases, by suite and file, as Apache Spark 4.2.0 has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

__all__ = ["SPARK_VERSION", "Name", "all_cases", "connector_cases", "matching"]

SPARK_VERSION = "4.2.0"
_FILE = Path(__file__).parent.parent / "vectors" / "spark-connector" / "cases.tsv"

Name = tuple[str, str]
"""A suite and the name of one of its cases."""


@cache
def all_cases() -> tuple[Name, ...]:
    """Returns every case, in the order of the connector's files."""
    lines = _FILE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return tuple((suite, name) for suite, name, _ in rows)


def connector_cases() -> frozenset[Name]:
    """Returns every case as a set."""
    return frozenset(all_cases())


def matching(suite: str, pattern: str) -> list[Name]:
    """Returns the cases of a suite with this name. ``*`` stands for any text in both arguments."""
    suites, names = _like(suite), _like(pattern)
    return [(at, name) for at, name in all_cases() if suites(at) and names(name)]


@cache
def _like(pattern: str) -> Callable[[str], object]:
    return re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
