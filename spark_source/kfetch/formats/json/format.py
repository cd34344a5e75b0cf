"""JSON as a format of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kfetch.formats.columns import layout
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.types import ValueType
from kfetch.formats.format import Format
from kfetch.formats.json.options import check_corrupt_column, check_zone, needs_zone
from kfetch.formats.json.time_zones import find_zone, zone_named
from kfetch.formats.json.times import Zones
from kfetch.options import JsonColumn

if TYPE_CHECKING:
    from kfetch.formats.json.decoder import JsonDecoder
    from kfetch.formats.json.framed import FramedJson
    from kfetch.formats.registry.schemas import SchemaSource

__all__ = ["FORMAT"]


class _Json(Format[JsonColumn]):
    title = "JSON"
    parameters = layout.PARAMETERS
    loop_modules = ("scalar_loops", "skip_loops", "text_loops", "time_loops")

    def value_type(self, column: JsonColumn) -> ValueType:
        parsed = parse_schema(column.schema, option=column.type_option)
        check_corrupt_column(parsed, column=column.column)
        check_zone(parsed, column.time_zone, column=column.column)
        if column.time_zone:
            zone_named(column.time_zone, option=column.zone_option)
        return parsed

    def decoder(self, column: JsonColumn, loop: Callable[..., int]) -> JsonDecoder:
        from kfetch.formats.json.decoder import JsonDecoder, JsonSettings

        session = zone_named(column.time_zone or "UTC", option=column.zone_option)
        settings = JsonSettings(zones=Zones(session, find_zone))
        schema = parse_schema(column.schema, option=column.type_option)
        return JsonDecoder(schema, loop, settings)

    def framed(self, decoder: JsonDecoder, _registry: SchemaSource) -> FramedJson:
        from kfetch.formats.json.framed import FramedJson

        return FramedJson(decoder)

    def unused_options(self, column: JsonColumn) -> tuple[str, ...]:
        if column.time_zone and not needs_zone(self.value_type(column)):
            return (column.zone_option,)
        return ()


FORMAT = _Json()
