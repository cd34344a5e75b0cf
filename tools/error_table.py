"""The table of docs/reference/errors.md, from the classes.

A class says in its docstring's first paragraph what the error means, and in the second what to do.
"""

from __future__ import annotations

import kfetch_jobs.errors  # noqa: F401 - its classes are in the tree
from kfetch.admin.explanations import classes, meaning_and_action

__all__ = ["table"]


def table() -> str:
    """One row for each class: code and class, exit code, meaning, what to do."""
    rows = ["| Code and class | Exit code | Meaning | What to do |", "|---|---|---|---|"]
    for kind in classes():
        meaning, action = meaning_and_action(kind)
        code = f"[`{kind.condition}`](../how-to/errors/{kind.condition}.md)"
        rows.append(f"| {code}<br>`{kind.__name__}` | {kind.exit_code} | {meaning} | {action} |")
    return "\n".join(rows) + "\n"
