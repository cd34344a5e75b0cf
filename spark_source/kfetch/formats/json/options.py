"""What a JSON column's schema asks of its other options."""

from __future__ import annotations

from kfetch.errors import OptionError
from kfetch.formats.columns.ddl_text import kind_text
from kfetch.formats.columns.types import Kind, ValueType

__all__ = ["CORRUPT_COLUMN", "check_corrupt_column", "check_zone", "needs_zone"]

CORRUPT_COLUMN = "_corrupt_record"
"""Spark's default of spark.sql.columnNameOfCorruptRecord."""


def check_zone(schema: ValueType, zone: str, *, column: str = "value") -> None:
    """Raises OptionError if the schema of a column has times that need a zone, and none is named.

    Spark takes the session's zone, which a source in Python can't see.
    """
    if not zone and needs_zone(schema):
        raise OptionError(
            f"{column}Schema has a TIMESTAMP, so option {column}TimeZone must name the zone of "
            "times without one",
            action="set it to the session's zone (spark.sql.session.timeZone), such as UTC",
            option=f"{column}TimeZone",
        )


def check_corrupt_column(
    schema: ValueType, *, name: str = CORRUPT_COLUMN, column: str = "value"
) -> None:
    """Raises OptionError if the field for the text of corrupt records is no STRING."""
    kinds = dict(zip(schema.names, schema.children, strict=False))
    if name in kinds and kinds[name].kind is not Kind.STRING:
        raise OptionError(
            f"{column}Schema gives the field {name} the type {kind_text(kinds[name].kind)}, but "
            "it gets the text of values that do not fit",
            action="give it the type STRING",
            option=f"{column}Schema",
        )


def needs_zone(kind: ValueType) -> bool:
    """Returns whether a type has a TIMESTAMP. Text of one may lack a zone."""
    return kind.kind is Kind.TIMESTAMP or any(map(needs_zone, kind.children))
