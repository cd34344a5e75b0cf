"""The tables of docs/reference/job-keys.md, from the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfetch_jobs.config.field_types import DURATION_PATTERN
from kfetch_jobs.config.schema import schema

__all__ = ["tables"]

_FILES = {"project": "kfetch.yml", "environment": "env/NAME.yml", "job": "jobs/NAME.yml"}


def tables() -> str:
    """Returns a table for each kind of file."""
    return "\n".join(f"**`{_FILES[kind]}`**\n\n{_table(kind)}" for kind in _FILES)


def _table(kind: str) -> str:
    keys = schema(kind)
    lines = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    lines += _rows(keys, keys.get("$defs", {}), "")
    return "\n".join(lines) + "\n"


def _rows(model: dict[str, Any], parts: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, field in model["properties"].items():
        inside = _inside(field, parts)
        required = key in model.get("required", ())
        default = "required" if required else _default(field)
        yield f"| `{prefix}{key}` | {_kind(field, inside)} | {default} | {_meaning(field)} |"
        if inside and key != "sources":
            yield from _rows(inside, parts, f"{prefix}{key}.")


def _inside(field: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any] | None:
    """The model under a key; None for a plain value."""
    for choice in _choices(field):
        if "$ref" in choice:
            part = parts[choice["$ref"].rpartition("/")[2]]
            return next((one for one in _choices(part) if "properties" in one), None)
    return None


def _choices(field: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]


def _kind(field: dict[str, Any], inside: dict[str, Any] | None) -> str:
    if inside:
        return ""
    choices = _choices(field)
    if len(choices) > 1:
        return "name, or list of names"
    one = choices[0]
    if "enum" in one:
        return " or ".join(f"`{value}`" for value in one["enum"])
    if "const" in one:
        return f"`{str(one['const']).lower()}`"
    if one.get("pattern") == DURATION_PATTERN:
        return "duration"
    return _KINDS[one["type"]]


_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "keys and values",
}


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return ""
    if any(one.get("pattern") == DURATION_PATTERN for one in _choices(field)):
        return str(default)
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _meaning(field: dict[str, Any]) -> str:
    text = " ".join(field.get("description", "").split()).replace("``", "`")
    return text.replace("|", "\\|")
