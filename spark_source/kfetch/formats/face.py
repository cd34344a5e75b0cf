"""What the engine and Spark's side see of formats. They import nothing else of this package.

Importing it is cheap: decoders, files and registries are imported when a query needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kfetch.errors import OptionError
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.format import FORMATS, format_of
from kfetch.options import SourceOptions
from kfetch.options.formats import TypedColumn

if TYPE_CHECKING:
    from kfetch.formats.typed_values import TypedPart as TypedPart
    from kfetch.formats.typed_values import TypedValues as TypedValues

__all__ = [
    "FORMATS",
    "Kind",
    "ValueType",
    "parse_schema",
    "typed_values",
    "unused_options",
    "value_type",
    "with_types",
]

FILE_BYTES_MAX = 8 << 20
"""Bytes of a file. Each task sends two of them at most, in a message to its agent."""


def value_type(column: TypedColumn) -> ValueType:
    """Returns the struct of a column. Raises OptionError or NotBuilt."""
    return format_of(column.format).value_type(column)


def unused_options(column: TypedColumn) -> tuple[str, ...]:
    """Returns the options of a column that its type has no use for."""
    return format_of(column.format).unused_options(column)


def with_types(
    options: SourceOptions, fits: Callable[[TypedColumn], bool] | None = None
) -> SourceOptions:
    """Returns the options with the types that files and registries hold. The driver calls it.

    ``fits``: as in ``with_reader_schemas``, which tells what the errors are.
    """
    columns = (
        format_of(typed.format).with_files(typed, _read_types) for typed in options.typed_columns
    )
    options = replace(options, typed_columns=tuple(columns))
    if all(typed.registry is None for typed in options.typed_columns):
        return options
    from kfetch.formats.reader_schemas import with_reader_schemas  # HTTP and TLS

    return with_reader_schemas(options, fits)


def _read_types(path: str, option: str) -> bytes:
    """Returns the bytes of a file of types, which an option names. Raises OptionError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise OptionError(
            f"the file of option {option} can't be read on the driver: {path}: {problem.strerror}",
            action="set it to a file that `protoc --descriptor_set_out` wrote",
            option=option,
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise OptionError(
            f"the file of option {option} has more than {FILE_BYTES_MAX >> 20} MiB: {path}",
            action="write one with only the files that the message needs",
            option=option,
        )
    return data


def typed_values(columns: tuple[TypedColumn, ...]) -> TypedValues:
    """Returns the decoder of some columns, which all readers share. It may compile for seconds."""
    from kfetch.formats.typed_values import typed_values as shared

    return shared(columns)
