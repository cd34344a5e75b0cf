"""Reads SQL that only selects columns: what tasks can do that write a table's files themselves.

``SELECT value.id, timestamp AS sent, date(timestamp) AS day FROM source`` is such a query. All else
needs Spark, and ``NeedsSpark`` names the first clause that does. sqlglot reads the SQL, and it
forgives more than Spark does. So a run also looks at Spark's own plan (``run.straight``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"\w+")
_TEXT_MAX = 60
_FUNCTIONS = {
    "Cast": "date",
    "TryCast": "date",
    "TsOrDsToDate": "date",
    "Year": "year",
    "Month": "month",
    "Hour": "hour",
}
"""sqlglot's names of the functions that kfetch has, and kfetch's. CAST is one for dates alone."""
_FUNCTION_ARGUMENTS = {"this", "to", "safe"}
"""``safe`` stands for to_date, which makes null of a text that is no date. Times have dates."""


class NeedsSpark(Exception):
    """Rows need Spark. The text is the clause that says so."""


@dataclass(frozen=True, slots=True)
class Selected:
    """An item of a SELECT."""

    name: str
    """Empty for a star: all columns, or all fields of the struct at the path."""
    path: tuple[str, ...]
    function: str = ""


def read_select(sql: str, view: str) -> tuple[str, list[Selected]]:
    """Returns the name that the query gives the view, and what it selects.

    ``view``: the name of the only source. Raises NeedsSpark.
    """
    import sqlglot
    from sqlglot import exp

    try:
        statements = sqlglot.parse(sql, dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise NeedsSpark("SQL that kfetch does not read") from None
    if len(statements) != 1 or type(statements[0]) is not exp.Select:
        raise NeedsSpark("SQL that is no plain SELECT")
    query: Any = statements[0]
    _check_parts(query, "expressions", "from_")
    if not query.args.get("from_"):
        raise NeedsSpark("a SELECT without FROM")
    alias = _view_alias(query.args["from_"].this, view)
    return alias, [_item(one) for one in query.expressions]


def _check_parts(node: Any, *known: str) -> None:
    """Raises NeedsSpark for a clause beside the known ones."""
    for name, part in node.args.items():
        if part and name not in known:
            raise NeedsSpark(name.strip("_").upper())


def _view_alias(table: Any, view: str) -> str:
    from sqlglot import exp

    if type(table) is not exp.Table or type(table.this) is not exp.Identifier:
        raise NeedsSpark(f"FROM {_text(table)}")
    _check_parts(table, "this", "alias")
    alias = table.args.get("alias")
    if alias:
        _check_parts(alias, "this")
    if table.name.lower() != view.lower():
        raise NeedsSpark(f"FROM {_text(table)}")
    return str(alias.name if alias else table.name)


def _item(node: Any) -> Selected:
    from sqlglot import exp

    if type(node) is exp.Alias:
        _check_parts(node, "this", "alias")
        path, function = _value(node.this)
        return Selected(_name(node.args["alias"]), path, function)
    if (star := _star(node)) is not None:
        return Selected("", star)
    path, function = _value(node)
    if function:
        raise NeedsSpark(f"{_text(node)} without a name")
    return Selected(path[-1], path)


def _star(node: Any) -> tuple[str, ...] | None:
    """Returns the path of ``value.*``, an empty one for ``*``, and None for anything else."""
    from sqlglot import exp

    last = node.this if type(node) is exp.Column else node
    last = node.expression if type(node) is exp.Dot else last
    if type(last) is not exp.Star:
        return None
    _check_parts(last)
    if type(node) is exp.Dot:
        return _path(node.this)
    return () if node is last else tuple(_name(part) for part in node.parts[:-1])


def _value(node: Any) -> tuple[tuple[str, ...], str]:
    """Returns a path and the function of what is there."""
    function = _FUNCTIONS.get(type(node).__name__, "")
    if not function:
        return _path(node), ""
    is_date = function == "date"
    if {name for name, part in node.args.items() if part} - _FUNCTION_ARGUMENTS:
        raise NeedsSpark(_text(node))
    if "to" in node.args and node.args["to"].sql() != "DATE":
        raise NeedsSpark(_text(node))
    # sqlglot puts a date between a time and its year.
    inner = node.this
    if not is_date and type(inner).__name__ == "TsOrDsToDate":
        _check_parts(inner, "this")
        inner = inner.this
    return _path(inner), function


def _path(node: Any) -> tuple[str, ...]:
    from sqlglot import exp

    if type(node) is exp.Dot:
        return (*_path(node.this), _name(node.expression))
    if type(node) is not exp.Column:
        raise NeedsSpark(_text(node))
    _check_parts(node, "this", "table", "db", "catalog")
    return tuple(_name(part) for part in node.parts)


def _name(node: Any) -> str:
    from sqlglot import exp

    if type(node) is not exp.Identifier or not _PLAIN.fullmatch(node.name):
        raise NeedsSpark(f"the name {_text(node)}")
    return str(node.name)


def _text(node: Any) -> str:
    return str(node.sql(dialect="spark"))[:_TEXT_MAX]


Field = Mapping[str, Any]
"""A column as Delta writes it: ``name``, ``type``."""


def resolved(items: Sequence[Selected], alias: str, columns: Mapping[str, Field]) -> dict[str, str]:
    """Returns the names that a SELECT gives, and what each is: ``value.id``, ``date(timestamp)``.

    ``alias``: the view's name. ``columns``: the source's columns, by their names in the view.
    Raises NeedsSpark.
    """
    found: dict[str, str] = {}
    for item in items:
        for name, path in _expanded(item, alias, columns):
            if name.lower() in map(str.lower, found):
                raise NeedsSpark(f"two columns named {name}")
            text = ".".join(path)
            if tuple(text.strip().split(".")) != path:
                raise NeedsSpark(f"the name {text}")
            found[name] = f"{item.function}({text})" if item.function else text
    return found


def _expanded(
    item: Selected, alias: str, columns: Mapping[str, Field]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields name and path of an item, or of all that a star stands for."""
    known = {name.lower(): field for name, field in columns.items()}
    path = item.path
    if path and path[0].lower() == alias.lower() and (len(path) > 1 or not item.name):
        if alias.lower() in known:
            raise NeedsSpark(f"the name {alias}, of the view and of a column")
        path = path[1:]
    if not path:
        yield from ((name, (str(field["name"]),)) for name, field in columns.items())
        return
    if (field := known.get(path[0].lower())) is None:
        raise NeedsSpark(f"the name {path[0]}")
    path = (str(field["name"]), *path[1:])
    if item.name:
        yield item.name, path
    else:
        yield from ((name, (*path, name)) for name in _fields_at(field["type"], path[1:]))


def _fields_at(kind: Any, path: Sequence[str]) -> list[str]:
    for part in (*path, ""):
        if not isinstance(kind, Mapping) or kind["type"] != "struct":
            raise NeedsSpark("a star behind what is no struct")
        if part:
            same = [one for one in kind["fields"] if one["name"].lower() == part.lower()]
            kind = same[0]["type"] if len(same) == 1 else None
    return [str(one["name"]) for one in kind["fields"]]
