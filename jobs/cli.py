"""``kfetch``: the entry point of the command line.

A ``JobsError`` becomes one line on stderr and an exit code; anything else is a bug and keeps its
traceback.
"""

from __future__ import annotations

import sys

from jobs.errors import JobsError

__all__ = ["main"]


def main() -> None:
    """What the ``kfetch`` script calls."""
    try:
        import typer  # noqa: F401
    except ImportError:
        _leave("the command line is not installed: install kfetch[jobs]", JobsError.exit_code)
    try:
        from jobs.verbs.root import command

        command()(prog_name="kfetch")  # also for `python -m jobs.cli`
    except JobsError as error:
        _leave(str(error), error.exit_code)


def _leave(sentence: str, code: int) -> None:
    print(f"kfetch: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
