"""Writes the generated parts of docs/ from the code: ``python -m tools.reference``.

A part stands between ``<!-- NAME -->`` and ``<!-- /NAME -->`` of its page. The pages of errors are
whole files. A test compares all of them with the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import kfetch_jobs.errors  # noqa: F401 - its classes are errors too
from integration.brokers import versions
from kfetch import delta
from kfetch.admin import explanations, query
from kfetch.admin.cli import command
from kfetch.options.catalogue import OPTIONS
from kfetch.spark.listener import LagListener
from kfetch_jobs.metrics.table import METRICS
from tools import broker_reactions, job_keys, session_bytes, session_moves, spark_versions

__all__ = ["DOCS", "PARTS", "error_pages", "filled", "written"]

DOCS = Path(__file__).parent.parent / "docs"
TOOLS = (
    "agents",
    "brokers",
    "checkpoint",
    "checkpoint_check",
    "decoder",
    "explanations",
    "platform",
    "samples",
    "sources",
    "statistics",
    "to_connector",
)
"""The modules of ``kfetch.admin`` whose functions docs/reference/python-api.md lists."""
_HELP_WIDTH = 86
"""In characters. The site shows lines of this length whole."""


def _options() -> str:
    """Returns the option table. Options name pages of docs/, and here these names are links."""
    rows = [f"| `{o.name}` | {o.default} | {o.treatment.value} | {o.meaning} |" for o in OPTIONS]
    table = "\n".join(["| Option | Default | In kfetch | Meaning |", "|---|---|---|---|", *rows])
    return re.sub(r"docs/(\S+/(\S+)\.md)", r"[\2](../\1)", table) + "\n"


def _commands() -> str:
    """Returns the help of each command below a heading of its own."""
    return "\n".join(_helps(command(), "kfetch", None))


def _helps(verb: Any, name: str, parent: Any) -> Iterator[str]:
    context = verb.context_class(
        verb,
        info_name=name,
        parent=parent,
        terminal_width=_HELP_WIDTH,
        max_content_width=_HELP_WIDTH,
    )
    lines = "\n".join(line.rstrip() for line in verb.get_help(context).splitlines())
    yield f"## {context.command_path}\n\n```text\n{lines.strip()}\n```\n"
    for child in verb.list_commands(context) if hasattr(verb, "commands") else ():
        yield from _helps(verb.commands[child], child, context)


def _errors() -> str:
    """Returns a row for each class of errors: code and class, exit code, meaning, what to do."""
    rows = ["| Code and class | Exit code | Meaning | What to do |", "|---|---|---|---|"]
    for kind in explanations.classes():
        meaning, action = explanations.meaning_and_action(kind)
        code = f"[`{kind.condition}`](../how-to/errors/{kind.condition}.md)"
        rows.append(f"| {code}<br>`{kind.__name__}` | {kind.exit_code} | {meaning} | {action} |")
    return "\n".join(rows) + "\n"


def _exit_codes() -> str:
    """Returns a row for each exit code, with the errors that end a command with it."""
    by_exit_code: dict[int, list[str]] = {}
    for kind in explanations.classes():
        link = f"[`{kind.condition}`](../how-to/errors/{kind.condition}.md)"
        by_exit_code.setdefault(kind.exit_code, []).append(link)
    codes = sorted(by_exit_code.items())
    rows = [f"| {code} | {', '.join(sorted(links))} |" for code, links in codes]
    return "\n".join(["| Exit code | Errors |", "|---|---|", *rows]) + "\n"


def _metrics() -> str:
    """Returns a row for each metric."""
    rows = [
        f"| `{entry.name}` | {entry.kind} | {', '.join(f'`{name}`' for name in entry.labels)} "
        f"| {entry.meaning} |\n"
        for entry in METRICS.values()
    ]
    return "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n" + "".join(rows)


def _api() -> str:
    """Returns the classes and functions of the Python API, with their docstrings."""
    parts = [
        *_class(LagListener, "kfetch.LagListener"),
        *_class(query.Lag, "kfetch.admin.query.Lag"),
        *_class(query.PartitionLag, "kfetch.admin.query.PartitionLag"),
    ]
    parts += ["### `kfetch.delta`\n", *_functions(delta)]
    for name in TOOLS:
        module = import_module(f"kfetch.admin.{name}")
        parts.append(f"### `{module.__name__}`\n\n{_text(module)}\n")
        parts += _functions(module)
    return "\n".join(parts)


def _class(kind: type, name: str) -> Iterator[str]:
    yield f"### `{name}`\n\n{_text(kind)}\n"
    fields = [
        f"| `{field}` | `{annotation}` |"
        for field, annotation in kind.__annotations__.items()
        if not field.startswith("_")
    ]
    fields += [
        f"| `{member}` | `{value.fget.__annotations__['return']}` |"
        for member, value in vars(kind).items()
        if isinstance(value, property) and value.fget
    ]
    if fields:
        yield "\n".join(["| Attribute | Type |", "|---|---|", *fields]) + "\n"


def _functions(module: ModuleType) -> Iterator[str]:
    for name in sorted(_public(module)):
        value = getattr(module, name)
        if inspect.isfunction(value):
            signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
            yield f"```python\ndef {name}{signature}: ...\n```\n\n{_text(value)}\n"


def _public(module: ModuleType) -> Collection[str]:
    """Returns the names that a module lists; without a list, those that it defines."""
    own = inspect.getmembers(module, lambda value: inspect.getmodule(value) is module)
    public = [name for name, _ in own if not name.startswith("_")]
    listed: Collection[str] = getattr(module, "__all__", public)
    return listed


def _text(described: Any) -> str:
    return inspect.cleandoc(described.__doc__ or "").replace("``", "`")


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("reference/options.md", "options", _options),
    ("reference/job-keys.md", "keys", job_keys.tables),
    ("reference/commands.md", "commands", _commands),
    ("reference/metrics.md", "metrics", _metrics),
    ("reference/errors.md", "errors", _errors),
    ("reference/exit-codes.md", "codes", _exit_codes),
    ("reference/python-api.md", "api", _api),
    ("reference/broker-errors.md", "reactions", broker_reactions.table),
    ("reference/broker-versions.md", "versions", versions.table),
    ("reference/spark-versions.md", "sparks", spark_versions.table),
    ("explanation/fetch-sessions.md", "bytes", session_bytes.table),
    ("explanation/fetch-sessions.md", "dump", session_bytes.dump),
    ("explanation/fetch-sessions.md", "transitions", session_moves.table),
)
"""The page, the name and the content of each part."""


def filled(text: str, name: str, content: str) -> str:
    """Returns the text of a page with ``content`` as its part ``name``.

    Raises ValueError if the page does not have this part.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    head, has_begin, rest = text.partition(begin)
    _, has_end, tail = rest.partition(end)
    if not (has_begin and has_end):
        raise ValueError(f"the page lacks {begin.strip()} or {end}")
    return f"{head}{begin}{content}{end}{tail}"


def error_pages() -> dict[str, str]:
    """Returns the text of each page below docs/how-to/errors/, by its name."""
    return {f"{kind.condition}.md": explanations.page(kind) for kind in explanations.classes()}


def written() -> int:
    """Write every generated part and page. Returns how many."""
    for page, name, content in PARTS:
        path = DOCS / page
        path.write_text(filled(path.read_text(), name, content()))
    (DOCS / "how-to/errors").mkdir(exist_ok=True)
    for file, text in error_pages().items():
        (DOCS / "how-to/errors" / file).write_text(text)
    return len(PARTS) + len(error_pages())


if __name__ == "__main__":
    print(f"{written()} parts written below {DOCS}")
