"""What the engine and Spark's side see of formats. They import nothing else of this package.

Importing it is cheap: decoders, files and registries are imported when a query needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.files import read_types
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
    "typed_values",
    "unused_options",
    "value_type",
    "with_types",
]


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
        format_of(typed.format).with_files(typed, read_types) for typed in options.typed_columns
    )
    options = replace(options, typed_columns=tuple(columns))
    if all(typed.registry is None for typed in options.typed_columns):
        return options
    from kfetch.formats.reader_schemas import with_reader_schemas  # HTTP and TLS

    return with_reader_schemas(options, fits)


def typed_values(columns: tuple[TypedColumn, ...]) -> TypedValues:
    """Returns the decoder of some columns, which all readers share. It may compile for seconds."""
    from kfetch.formats.typed_values import typed_values as shared

    return shared(columns)
