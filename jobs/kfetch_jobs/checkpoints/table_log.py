"""Reads which queries have written to a Delta table, from its log on this machine.

Delta notes the id of the query with each micro-batch, so that it can skip a repeated one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_COMMITS_MAX = 100
"""How many of a table's last commits are searched."""


def has_log(table: Path) -> bool:
    """Returns whether there is a Delta table in a directory."""
    return (table / "_delta_log").is_dir()


def queries_of(table: Path) -> set[str]:
    """Returns the ids of the queries that a table's last commits name; none without a table."""
    commits = sorted((table / "_delta_log").glob("*.json"))[-_COMMITS_MAX:]
    return {query for commit in commits for query in _queries(commit)}


def _queries(commit: Path) -> Iterator[str]:
    with suppress(OSError):  # Delta removes old commits
        for line in commit.read_bytes().splitlines():
            if b'"txn"' in line:
                with suppress(ValueError, KeyError, TypeError):
                    yield str(json.loads(line)["txn"]["appId"])
