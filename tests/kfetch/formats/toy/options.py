"""The options of text of fixed width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kfetch.options.formats import TypedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedColumn(TypedColumn):
    """How keys or values become structs: keyFormat=fixed, valueFormat=fixed."""

    format: ClassVar[str] = "fixed"
    reads: ClassVar[tuple[str, ...]] = ("Schema", "Mode", "Fields")
    types_in_registry: ClassVar[bool] = False

    schema: str
    """The fields with their bytes: ``id 4, name 6``."""

    @classmethod
    def needed(cls, column: str, texts: Mapping[str, str], *, has_registry: bool) -> dict[str, str]:
        return {"Schema": 'the fields and their bytes, such as "id 4, name 6"'}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **shared: Any) -> Self:
        return cls(schema=texts["Schema"], **shared)

    @property
    def type_option(self) -> str:
        return f"{self.column}Schema"

    @property
    def widths(self) -> dict[str, int]:
        """The bytes of each field."""
        pairs = (entry.split() for entry in self.schema.split(","))
        return {name: int(width) for name, width in pairs}


COLUMN = FixedColumn
