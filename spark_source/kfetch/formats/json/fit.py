"""Finds which JSON documents fit a schema, why others do not, and which fields the schema lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfetch.formats.columns.decoded import Problem
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.json import reference
from kfetch.formats.json.characters import BadDocument
from kfetch.formats.json.infer import (
    NO_TYPE,
    InferredType,
    TooDeep,
    inferred_type,
    merged,
    missing_in,
    schema_of,
)
from kfetch.formats.json.times import Zones
from kfetch.records.java_text import java_text

_CONFLUENT_HEADER_BYTES = 5  # a zero byte, and the schema's id


@dataclass(frozen=True, slots=True)
class Fit:
    """The documents of a sample under one schema."""

    good: int
    """The number of documents that fit."""
    empty: int
    """The number of null and empty values."""
    confluent: int
    """The number of values with Confluent's header, which are not plain JSON."""
    problems: tuple[tuple[int, Problem], ...]
    """For each document that does not fit: its index in the sample, and the reason.

    A document with more levels than any schema can have is always among them."""
    unknown: tuple[str, ...]
    """Fields that documents have and the schema lacks. Field ``b`` of struct ``a`` is ``a.b``."""


def inferred(values: Iterable[bytes | None]) -> InferredType:
    """Returns the type of a sample. It skips values that are not JSON objects."""
    return merged(types_of(values))


def types_of(values: Iterable[bytes | None]) -> list[InferredType]:
    """Returns the type of each JSON object of a sample."""
    types = (_type_or_none(value or b"") for value in values)
    return [found for found in types if found.kind is Kind.STRUCT]


def _type_or_none(value: bytes) -> InferredType:
    try:
        return inferred_type(value)
    except BadDocument:
        return NO_TYPE


def fit(values: Iterable[bytes | None], schema: ValueType, zones: Zones) -> Fit:
    """Counts the values that fit a struct, and says why others do not. ``zones``: for times."""
    documents = list(values)
    full = [(at, value) for at, value in enumerate(documents) if value]
    framed = {at for at, value in full if value[0] == 0 and len(value) > _CONFLUENT_HEADER_BYTES}
    reasons = {at: _problem(value, schema, zones) for at, value in full if at not in framed}
    problems = tuple((at, reason) for at, reason in reasons.items() if reason is not None)
    return Fit(
        good=len(reasons) - len(problems),
        empty=len(documents) - len(full),
        confluent=len(framed),
        problems=problems,
        unknown=tuple(missing_in(schema, schema_of(inferred(documents)))),
    )


def _problem(value: bytes, schema: ValueType, zones: Zones) -> Problem | None:
    problem = reference.decode(value, schema, zones).problem
    if problem is not None:
        return problem
    try:
        inferred_type(value)
    except TooDeep as error:
        return reference.problem_of(error, java_text(value))
    except BadDocument:
        return None  # the error is in a field that the decoder skips
    return None
