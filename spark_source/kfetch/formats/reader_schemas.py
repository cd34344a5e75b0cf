"""Asks the registry on the driver for the reader's schema, which it sends to the tasks.

So the columns of a query do not change while it runs. Spark starts more than one process for a
query, and each asks the registry. The schema that Spark passes on says which version to take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from kfetch.errors import OptionError
from kfetch.formats.format import format_of
from kfetch.formats.registry.client import Registry, registry_of
from kfetch.formats.registry.schemas import Schema, SchemaUnknown
from kfetch.options import SourceOptions
from kfetch.options.formats import TypedColumn
from kfetch.options.registry import RegistryColumn

_VERSIONS_MAX = 20
"""Older versions that are tried, if the latest one has other columns than Spark knows."""

Fits = Callable[[TypedColumn], bool]


def with_reader_schemas(options: SourceOptions, fits: Fits | None = None) -> SourceOptions:
    """Returns the options with the reader's schemas that they find by a subject.

    ``fits``: says whether a column has the type that Spark knows; without it, or if no version
    fits, the latest version is taken. Raises OptionError for a subject or version that does not
    exist, and RegistryUnavailable or RegistryRefused.
    """
    columns = tuple(_resolved(typed, fits) for typed in options.typed_columns)
    return replace(options, typed_columns=columns)


def _resolved(typed: TypedColumn, fits: Fits | None) -> TypedColumn:
    if not needs_schema(typed) or typed.registry is None:
        return typed
    candidates = _candidates(typed, typed.registry)
    first = next(candidates)
    if fits is None or fits(first):
        return first
    return next((candidate for candidate in candidates if fits(candidate)), first)


def needs_schema(typed: TypedColumn) -> bool:
    """Returns whether the reader's schema of a column is in a registry, and not asked for yet."""
    if typed.registry is None or not typed.registry.subject:
        return False
    return not format_of(typed.format).has_schema(typed)


def _candidates(typed: TypedColumn, column: RegistryColumn) -> Iterator[TypedColumn]:
    """Yields the column with the schema of each version, the newest one first.

    Older versions that can't be used are left out.
    """
    registry = registry_of(column.registry)
    latest = _version(typed, column, registry, column.version)
    yield _with_schema(typed, latest, registry)
    if column.version is not None:
        return
    older = [number for number in _versions(column, registry) if number < latest.version]
    for number in sorted(older, reverse=True)[:_VERSIONS_MAX]:
        with suppress(OptionError):
            yield _with_schema(typed, _version(typed, column, registry, number), registry)


def _versions(column: RegistryColumn, registry: Registry) -> list[int]:
    """Returns the versions of the subject; none if somebody deletes it now."""
    try:
        return registry.versions(column.subject)
    except SchemaUnknown:
        return []


def _version(
    typed: TypedColumn, column: RegistryColumn, registry: Registry, version: int | None
) -> Schema:
    kind = typed.format.upper()
    form = format_of(typed.format).schema_form
    try:
        found = registry.by_version(column.subject, version, form=form)
    except SchemaUnknown as unknown:
        raise OptionError(
            str(unknown),
            action=f"correct {typed.column}Subject or {typed.column}SubjectVersion, or register a "
            "schema",
            option=f"{typed.column}Subject",
        ) from None
    if found.kind != kind:
        raise OptionError(
            f"subject {column.subject} has schemas of type {found.kind}, and "
            f"{typed.column}Format={typed.format} needs {kind}",
            action=f"correct {typed.column}Format or {typed.column}Subject",
            option=f"{typed.column}Subject",
        )
    return found


def _with_schema(typed: TypedColumn, schema: Schema, registry: Registry) -> TypedColumn:
    found: TypedColumn = format_of(typed.format).with_schema(typed, schema, registry.name)
    return found
