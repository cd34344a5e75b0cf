"""Sentences with a suggestion, from pydantic's errors and from unexpected exceptions."""

from __future__ import annotations

import logging
import traceback
import types
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache, reduce
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from kfetch_jobs.config.yamlfile import Document, KeyPath, suggestion

M = TypeVar("M", bound=BaseModel)

log = logging.getLogger("kfetch_jobs.config")

HIDDEN = "hidden_value"
"""The type of pydantic's error about a value that no sentence may show."""


def unexpected_mistake(job: str, error: Exception) -> str:
    """Returns the sentence for an exception that only a bug of kfetch can raise. Logs its trace.

    The sentence has no words of the exception, because they may quote a secret.
    """
    _log_once(job, "".join(traceback.format_exception(error, limit=-20)))
    return (
        f"job {job} cannot be read: {type(error).__name__}: this is a bug of kfetch: the log has "
        "its trace; undo what was last changed in its file"
    )


@lru_cache(maxsize=64)
def _log_once(job: str, trace: str) -> None:
    """Log a trace once. The page reads the files every second, and would fill the log."""
    log.error("job %s cannot be read: %s", job, trace)


def validation_mistakes(
    model: type[BaseModel], document: Document, error: ValidationError
) -> list[str]:
    """Returns a sentence with file and line for each of pydantic's errors."""
    errors = sorted(error.errors(), key=lambda one: _order(document, one))
    return [
        f"{document.file_line(tuple(one['loc']))}: {_sentence(model, document, one)}"
        for one in errors
    ]


def validated_parts(
    model: type[M], document: Document, stand_ins: Mapping[str, Any]
) -> tuple[M | None, list[str]]:
    """Returns a file's model, and a sentence for each mistake.

    With a mistake, the model has the valid parts, so that the caller can check these too.
    ``stand_ins`` take the place of invalid parts. The model is None if too little is valid.
    """
    value, sentences = document.value, list[str]()
    for repair in (_without_invalid_keys, _without_invalid_parts, None):
        try:
            return model.model_validate(value), sentences
        except ValidationError as error:
            # The later rounds find the gaps that the first one has left.
            sentences = sentences or validation_mistakes(model, document, error)
            if repair is not None:
                value = repair(value, error, stand_ins)
    return None, sentences


def _without_invalid_keys(
    value: Mapping[str, Any], error: ValidationError, stand_ins: Mapping[str, Any]
) -> dict[str, Any]:
    valid = deepcopy(dict(value))
    for one in error.errors():
        *outer, key = one["loc"] or ("",)
        around = reduce(lambda part, name: _part(part, name), outer, valid)
        if isinstance(around, dict) and outer:
            around.pop(str(key), None)
        elif key in stand_ins:
            valid[str(key)] = stand_ins[str(key)]
        else:
            valid.pop(str(key), None)
    return valid


def _part(value: Any, name: str | int) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _without_invalid_parts(
    value: Mapping[str, Any], error: ValidationError, stand_ins: Mapping[str, Any]
) -> dict[str, Any]:
    valid = dict(value)
    for key in {str(one["loc"][0]) for one in error.errors() if one["loc"]}:
        part = valid.pop(key, None)
        stand_in = stand_ins.get(key)
        if isinstance(stand_in, dict) and isinstance(part, dict):
            valid[key] = stand_in | {name: part[name] for name in _ALONE if name in part}
        elif stand_in is not None:
            valid[key] = stand_in
    return valid


_ALONE = ("cluster", "options")
"""Keys that are valid or not by themselves, whatever else their part has."""


def _order(document: Document, one: Any) -> tuple[bool, int]:
    # A key is often missing because it is misspelt. Then the misspelt key comes first.
    return one["type"] == "missing", document.line(tuple(one["loc"]))


def _sentence(model: type[BaseModel], document: Document, one: Any) -> str:
    location: KeyPath = tuple(one["loc"])
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
    # Behind this prefix is a validator's own message. It may begin with the user's word.
    problem = problem.removeprefix("value error, ")
    return ": ".join(
        filter(None, (_shown(name, document, one), document.with_placeholders(problem)))
    )


def _shown(name: str, document: Document, one: Any) -> str:
    """The key with its value. A filled value may be a secret, so its placeholder stands there."""
    value = document.raw_texts.get(tuple(one["loc"]), one["input"])
    if one["type"] == HIDDEN or isinstance(value, dict | list | BaseModel):
        return name
    return f"{name} is {value!r}"


def _keys(model: type[BaseModel] | None) -> Sequence[str]:
    return list(model.model_fields) if model else []


def _model_at(model: type[BaseModel], location: KeyPath) -> type[BaseModel] | None:
    annotation: Any = model
    for name in location:
        annotation = _inside(annotation, str(name))
    return _model_in(annotation)


def _inside(annotation: Any, name: str) -> Any:
    """The annotation of the value under a key: of a model's field, or of a dict's values."""
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
