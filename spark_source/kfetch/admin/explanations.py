"""The page of each error: what happened, how to look, what to do. ``kfetch explain`` prints it.

The first sentences come from the error's class. The rest is the file ``explanations/CODE.md`` in
the package of the class, so the wheels have all pages. docs/how-to/errors/ has the same pages.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from importlib.resources import files

from kfetch.errors import KfetchError, OptionError

_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_MODULES = ("kfetch.errors", "kfetch_jobs.errors")
"""Subclasses of other modules are details of these classes and have no code of their own."""


def classes() -> list[type[KfetchError]]:
    """Returns every loaded class of errors with a code, a base before those below it."""
    return [*_below(KfetchError)]


def _below(kind: type[KfetchError]) -> Iterator[type[KfetchError]]:
    if kind.__module__ in _MODULES:
        yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def code_classes(text: str) -> list[type[KfetchError]]:
    """Returns the classes of a code, as errors print it: ``[RECORDS_LOST.LOG_TRUNCATED]`` has two.

    Brackets are optional, and the case of letters does not matter. Raises OptionError for an
    unknown code.
    """
    known = {kind.condition: kind for kind in classes()}
    return [_class_of(code, known) for code in text.strip("[] ").upper().split(".")]


def _class_of(code: str, known: dict[str, type[KfetchError]]) -> type[KfetchError]:
    if code in known:
        return known[code]
    near = difflib.get_close_matches(code, known, n=1)
    advice = f"did you mean {near[0]}?" if near else "kfetch explain lists all codes"
    raise OptionError(f"no error has the code {code!r}", action=advice, error_code=code)


def without_links(text: str) -> str:
    """Returns Markdown with the texts of its links only, for a terminal."""
    return _LINK.sub(r"\1", text)


def meaning_and_action(kind: type[KfetchError]) -> tuple[str, str]:
    """Returns the meaning of an error and the action to take: one or two sentences each."""
    parts = inspect.cleandoc(vars(kind)["__doc__"]).split("\n\n")
    meaning, action, *_ = (" ".join(part.split()) for part in parts)
    return meaning, action


def page(kind: type[KfetchError]) -> str:
    """Returns the page of an error as Markdown."""
    meaning, action = meaning_and_action(kind)
    package = kind.__module__.partition(".")[0]
    text = files(package).joinpath("explanations", f"{kind.condition}.md").read_text("utf-8")
    return (
        f"# {kind.condition}\n\n{meaning}\n\n**In short:** {action}\n\n{text.strip()}\n\n"
        f"## For programs\n\nThe class is `{kind.__module__}.{kind.__name__}`. "
        f"A command that ends with this error exits with {kind.exit_code}.\n"
    )
