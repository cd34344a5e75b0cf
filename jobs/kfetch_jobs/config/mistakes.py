"""From pydantic's findings, and from what nobody foresaw, to sentences with a suggestion."""

from __future__ import annotations

import logging
import traceback
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from kfetch_jobs.config.yamlfile import Document, Location, suggestion

__all__ = ["sentences", "unforeseen"]

log = logging.getLogger("kfetch_jobs.config")


def unforeseen(job: str, error: Exception) -> str:
    """The sentence for what only a bug of ours raises over a job's file; its trace is logged.

    The sentence has no words of the error's, which may quote a secret.
    """
    _log_once(job, "".join(traceback.format_exception(error, limit=-20)))
    return (
        f"job {job} cannot be read: {type(error).__name__}: this is a bug of kfetch: the log has "
        "its trace; undo what was last changed in its file"
    )


@lru_cache(maxsize=64)
def _log_once(job: str, trace: str) -> None:
    """A page looks every second: the log would hold nothing else."""
    log.error("job %s cannot be read: %s", job, trace)


def sentences(model: type[BaseModel], document: Document, error: ValidationError) -> list[str]:
    """Each mistake, as it stands in the file."""
    found = sorted(error.errors(), key=lambda one: _order(document, one))
    return [f"{document.place(tuple(one['loc']))}: {_told(model, document, one)}" for one in found]


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
        choices = [part.strip("' ") for part in one["ctx"]["expected"].split(" or ")]
        return f"{_shown(name, document, one)}: {suggestion(str(one['input']), choices)}"
    problem = one["msg"][:1].lower() + one["msg"][1:]
    problem = problem.removeprefix("value error, ")  # ours: it may begin with the user's own word
    return ": ".join(filter(None, (_shown(name, document, one), document.hidden(problem))))


def _shown(name: str, document: Document, one: Any) -> str:
    """The value as it was written: what ``${…}`` brought may be a secret."""
    value = document.written.get(tuple(one["loc"]), one["input"])
    if isinstance(value, dict | list | BaseModel):
        return name
    return f"{name} is {value!r}"


def _keys(model: type[BaseModel] | None) -> Sequence[str]:
    return list(model.model_fields) if model else []


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    found: Any = model
    for name in location:
        found = _inside(found, str(name))
    return _model_in(found)


def _inside(annotation: Any, name: str) -> Any:
    """The annotation of what stands under a key: of a model's field, or of a dict's values."""
    model = _model_in(annotation)
    if model is not None:
        field = model.model_fields.get(name)
        return field.annotation if field else None
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return next(filter(None, map(_model_in, get_args(annotation))), None)
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None
