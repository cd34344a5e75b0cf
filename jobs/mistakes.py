"""From pydantic's findings to one sentence with file, line and a suggestion."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from jobs.yamlfile import Document, Location, suggestion

__all__ = ["sentence"]


def sentence(model: type[BaseModel], document: Document, error: ValidationError) -> str:
    """The first mistake in the file, and how many there are besides."""
    found = sorted(error.errors(), key=lambda one: _order(document, one))
    first = found[0]
    place = document.place(tuple(first["loc"]))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{place}: {_told(model, document, first)}{more}"


def _order(document: Document, one: Any) -> tuple[bool, int]:
    # A key is often missing because it is misspelt, and then that is what to tell.
    return one["type"] == "missing", document.line(tuple(one["loc"]))


def _told(model: type[BaseModel], document: Document, one: Any) -> str:
    location: Location = tuple(one["loc"])
    name = ".".join(map(str, location))
    if one["type"] == "extra_forbidden":
        known = _keys(_model_at(model, location[:-1]))
        return f"the key {name} is not known: {suggestion(str(location[-1]), known)}"
    if one["type"] == "missing":
        return f"{name} is missing"
    if one["type"] == "literal_error":
        choices = [part.strip("' ") for part in one["ctx"]["expected"].split("or")]
        return f"{_shown(name, document, one)}: {suggestion(str(one['input']), choices)}"
    problem = one["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    return f"{_shown(name, document, one)}: {problem}"


def _shown(name: str, document: Document, one: Any) -> str:
    """The value as it was written: what ``${env:…}`` brought may be a secret."""
    value = document.written.get(tuple(one["loc"]), one["input"])
    if isinstance(value, dict | list | BaseModel):
        return name
    return f"{name} is {value!r}"


def _keys(model: type[BaseModel] | None) -> Sequence[str]:
    return list(model.model_fields) if model else []


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    found: type[BaseModel] | None = model
    for name in location:
        field = found.model_fields.get(str(name)) if found else None
        found = _model_in(field.annotation) if field else None
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return next(filter(None, map(_model_in, get_args(annotation))), None)
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None
