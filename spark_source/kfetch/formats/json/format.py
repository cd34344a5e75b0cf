"""JSON as a format of keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfetch.errors import OptionError
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.types import ValueType
from kfetch.formats.format import Format
from kfetch.formats.json.decoder import JsonDecoder, check_corrupt_column
from kfetch.formats.json.loop_tables import PARAMETERS
from kfetch.formats.json.options import JsonColumn
from kfetch.formats.json.time_zones import find_zone, zone_named
from kfetch.formats.json.times import Zones

if TYPE_CHECKING:
    from kfetch.formats.columns.decoded import FormatLoop
    from kfetch.formats.json.framed import FramedJson
    from kfetch.formats.registry.schemas import SchemaSource


class _JsonFormat(Format[JsonColumn]):
    title = "JSON"
    parameters = PARAMETERS
    loop_modules = (
        "loop_tables",
        "number_loops",
        "scalar_loops",
        "skip_loops",
        "text_loops",
        "time_loops",
    )

    def value_type(self, column: JsonColumn) -> ValueType:
        parsed = parse_schema(column.schema, option=column.type_option)
        check_corrupt_column(parsed, column=column.column)
        _check_zone(parsed, column.time_zone, column=column.column)
        if column.time_zone:
            zone_named(column.time_zone, option=column.zone_option)
        return parsed

    def decoder(self, column: JsonColumn, loop: FormatLoop) -> JsonDecoder:
        session = zone_named(column.time_zone or "UTC", option=column.zone_option)
        schema = parse_schema(column.schema, option=column.type_option)
        return JsonDecoder(schema, loop, Zones(session, find_zone))

    def framed(self, decoder: JsonDecoder, _registry: SchemaSource) -> FramedJson:
        from kfetch.formats.json.framed import FramedJson

        return FramedJson(decoder)

    def unused_options(self, column: JsonColumn) -> tuple[str, ...]:
        if column.time_zone and not self.value_type(column).needs_zone:
            return (column.zone_option,)
        return ()


def _check_zone(schema: ValueType, zone: str, *, column: str) -> None:
    """Raises OptionError if the schema of a column has times that need a zone, and none is named.

    Spark takes the session's zone, which a source in Python can't see.
    """
    if not zone and schema.needs_zone:
        raise OptionError(
            f"{column}Schema has a TIMESTAMP, so option {column}TimeZone must name the zone of "
            "times without one",
            action="set it to the session's zone (spark.sql.session.timeZone), such as UTC",
            option=f"{column}TimeZone",
        )


FORMAT = _JsonFormat()
