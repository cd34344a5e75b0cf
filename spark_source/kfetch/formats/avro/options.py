"""The options of Avro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kfetch.errors import OptionError
from kfetch.options.formats import TypedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumn(TypedColumn):
    """How keys or values become structs: keyFormat=avro, valueFormat=avro."""

    format: ClassVar[str] = "avro"
    reads: ClassVar[tuple[str, ...]] = (
        *("Schema", "ReaderSchema", "Mode", "Fields"),
        *("Registry", "Subject", "SubjectVersion"),
    )
    reader_option: ClassVar[str] = "ReaderSchema"

    schema: str
    """The writer's schema, as the JSON text of an .avsc file; empty with a registry."""
    reader_schema: str = ""
    """The schema of the struct; empty for the writer's, or until the registry has given it."""
    references: tuple[str, ...] = ()
    """Schemas whose types the reader's schema names, each behind those that it needs itself."""
    mode: str = TypedColumn.default_mode.lower()

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **shared: Any) -> Self:
        """See TypedColumn."""
        return cls(schema=texts["Schema"], reader_schema=texts["ReaderSchema"], **shared)

    @classmethod
    def needed(cls, column: str, texts: Mapping[str, str], *, has_registry: bool) -> dict[str, str]:
        """See TypedColumn."""
        if not has_registry:
            return {"Schema": "the writer's schema, as the JSON text of an .avsc file"}
        if texts["Schema"]:
            raise OptionError(
                f"options {column}Schema and {column}Registry both give the writer's schema",
                action=f"remove {column}Schema; a reader's schema is {column}ReaderSchema",
                option=f"{column}Schema",
            )
        return {}

    @property
    def type_option(self) -> str:
        """See TypedColumn."""
        if self.registry is not None and self.registry.subject:
            return f"{self.column}Subject"
        return f"{self.column}{'ReaderSchema' if self.reader_schema else 'Schema'}"


COLUMN = AvroColumn
