"""What the folder of a format offers: its name, the types of columns, its decoder, its loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kfetch.options.formats import TypedColumn

if TYPE_CHECKING:
    from kfetch.formats.columns.decoded import FormatLoop, ValueDecoder
    from kfetch.formats.columns.types import ValueType
    from kfetch.formats.registry.schemas import Schema, SchemaSource

C = TypeVar("C", bound=TypedColumn)
FileReader = Callable[[str, str], bytes]
"""Takes a path, and the option that names it. Returns the file's bytes."""

FORMATS = {
    "json": "kfetch.formats.json",
    "avro": "kfetch.formats.avro",
    "protobuf": "kfetch.formats.protobuf",
}
"""The folder of each format, by its name in ``valueFormat``. A line here registers a format.

Its module ``options`` has ``COLUMN``, and ``format`` has ``FORMAT``. ``loops`` is compiled.
"""


class Format(Generic[C]):
    """One format. ``C``: the options of a column that has it."""

    title = ""
    """Its name in log lines."""
    parameters: Mapping[str, Sequence[str]]
    """The compiled function's name in ``loops``, and the C types of its parameters."""
    loop_modules: tuple[str, ...]
    """The modules of the folder that the compiled function uses, beside ``loops``."""
    schema_form = ""
    """The parameter ``format`` of requests to a registry; empty for the schema's text."""

    def value_type(self, column: C) -> ValueType:
        """Returns the struct of a column. Raises OptionError or NotBuilt."""
        raise NotImplementedError

    def decoder(self, column: C, loop: FormatLoop) -> ValueDecoder:
        """Returns the decoder of a column. ``loop``: the compiled function (``loading.load``)."""
        raise NotImplementedError

    def framed(self, decoder: Any, registry: SchemaSource) -> ValueDecoder:
        """Returns the decoder of the same column for values in Confluent's wire format."""
        raise NotImplementedError

    def unused_options(self, _column: C) -> tuple[str, ...]:
        """Returns the names of options that have no effect on this column's type."""
        return ()

    def with_files(self, column: C, _read: FileReader) -> C:
        """Returns the column with the contents of its files on the driver. Raises OptionError."""
        return column

    def has_schema(self, _column: C) -> bool:
        """Returns whether the options have the reader's schema. If not, a registry has it."""
        return True

    def with_schema(self, column: C, _schema: Schema, _registry: str) -> C:
        """Returns the column with the reader's schema of a registry. Raises OptionError."""
        return column


@cache
def format_of(name: str) -> Format[Any]:
    """Returns a format. The first call imports it."""
    found: Format[Any] = import_module(f"{FORMATS[name]}.format").FORMAT
    return found


@cache
def column_class(name: str) -> type[TypedColumn]:
    """Returns the class of a format's columns. The first call imports it, and nothing heavy."""
    found: type[TypedColumn] = import_module(f"{FORMATS[name]}.options").COLUMN
    return found
