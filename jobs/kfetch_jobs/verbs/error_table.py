"""The table of docs/errors.md, from the classes: ``python -m kfetch_jobs.verbs.error_table``.

A class says in its docstring's first paragraph what the error means, and in the second what to do.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import kfetch_jobs.errors  # noqa: F401 - its classes are in the tree
from kfetch.errors import KfetchError

__all__ = ["classes", "table"]


def classes() -> list[type[KfetchError]]:
    """Every class of both trees, a base before those below it."""
    return [*_below(KfetchError)]


def _below(kind: type[KfetchError]) -> Iterator[type[KfetchError]]:
    if kind.__module__ in ("kfetch.errors", "kfetch_jobs.errors"):
        yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def table() -> str:
    """One row for each class: code, class, exit code, meaning, what to do."""
    rows = ["| Code | Class | Exit code | Meaning | What to do |", "|---|---|---|---|---|"]
    for kind in classes():
        meaning, action = (" ".join(part.split()) for part in _paragraphs(kind)[:2])
        name = f"{kind.__module__}.{kind.__name__}"
        rows.append(f"| `{kind.condition}` | `{name}` | {kind.exit_code} | {meaning} | {action} |")
    return "\n".join(rows) + "\n"


def _paragraphs(kind: type[KfetchError]) -> list[str]:
    return (inspect.getdoc(kind) or "").split("\n\n")


if __name__ == "__main__":
    print(table(), end="")
