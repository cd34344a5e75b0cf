"""The options of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kfetch.options.formats import TypedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn(TypedColumn):
    """How keys or values become structs: keyFormat=json, valueFormat=json."""

    format: ClassVar[str] = "json"
    reads: ClassVar[tuple[str, ...]] = ("Schema", "Mode", "TimeZone", "Fields", "Registry")
    types_in_registry: ClassVar[bool] = False
    default_mode: ClassVar[str] = "PERMISSIVE"
    planned_modes: ClassVar[tuple[str, ...]] = ("dropmalformed",)

    schema: str
    """Spark's DDL, or the JSON of a StructType."""
    mode: str = default_mode.lower()
    time_zone: str = ""
    """The zone of times without one; empty if the schema needs none."""

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **shared: Any) -> Self:
        """See TypedColumn."""
        return cls(schema=texts["Schema"], time_zone=texts["TimeZone"], **shared)

    @classmethod
    def needed(cls, column: str, texts: Mapping[str, str], *, has_registry: bool) -> dict[str, str]:
        """See TypedColumn."""
        return {"Schema": 'the fields, such as "id BIGINT, name STRING"'}

    @property
    def zone_option(self) -> str:
        """The option that names the zone."""
        return f"{self.column}TimeZone"

    @property
    def type_option(self) -> str:
        """See TypedColumn."""
        return f"{self.column}Schema"


COLUMN = JsonColumn
