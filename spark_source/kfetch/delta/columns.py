"""The columns that a query writes: which value of a record each of them has. Pure.

A column is one of the source, a field of its structs, or ``date``, ``year``, ``month`` or ``hour``
of a timestamp in a named zone. The texts are those of SQL: ``value.id``, ``date(timestamp)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfetch.delta.types import TableField, type_text
from kfetch.errors import OptionError

_EXPRESSION = re.compile(
    r"(?P<function>\w+)\s*\(\s*(?P<path>[\w.]+)\s*(,\s*'(?P<zone>[^']*)'\s*)?\)"
)
FUNCTIONS = {"date": "date", "year": "integer", "month": "integer", "hour": "integer"}
"""The functions of a timestamp, and the types of their results."""
_ARROW_END = datetime(2037, 1, 1, tzinfo=UTC)
_YEAR_2400 = datetime(2400, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CYCLE = timedelta(days=146_097)
"""400 years, after which the calendar repeats, with its weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of the table, and where its value comes from."""

    name: str
    type: Any
    """As the log of Delta has it."""
    path: tuple[str, ...]
    """The source's names: a column, and fields of its structs."""
    function: str = ""
    """Of a timestamp; empty for the value itself."""
    zone: str = ""
    """The time zone of the function; empty for a timestamp without a zone."""

    @property
    def field(self) -> TableField:
        """The column of the table's schema."""
        return {"name": self.name, "type": self.type, "nullable": True, "metadata": {}}


def all_columns(fields: Iterable[TableField]) -> list[TableColumn]:
    """Returns the columns of the source as they are."""
    return [TableColumn(name=one["name"], type=one["type"], path=(one["name"],)) for one in fields]


def parse_column(
    name: str,
    text: str,
    fields: Sequence[TableField],
    zone: str,
    *,
    option: str = "partition_by",
) -> TableColumn:
    """Returns the column of a text. ``fields``: the source's columns.

    ``zone``: that of a function without one. Raises OptionError, which names the argument
    ``option``.
    """
    try:
        return _parsed_column(name, text, fields, zone)
    except OptionError as cause:
        raise OptionError(cause.what, action=cause.action, option=option) from None


def _parsed_column(name: str, text: str, fields: Sequence[TableField], zone: str) -> TableColumn:
    call = _EXPRESSION.fullmatch(text.strip())
    path, kind = _found(name, (call["path"] if call else text.strip()).split("."), fields)
    if call is None:
        return TableColumn(name=name, type=kind, path=path)
    if call["function"] not in FUNCTIONS:
        raise mistake(name, f"kfetch has no function {call['function']}")
    if kind not in ("timestamp", "timestamp_ntz"):
        raise mistake(name, f"{'.'.join(path)} is {type_text(kind)}, and no timestamp")
    named = "" if kind == "timestamp_ntz" else (call["zone"] or zone)
    _check_zone(name, named)
    result = FUNCTIONS[call["function"]]
    return TableColumn(name=name, type=result, path=path, function=call["function"], zone=named)


def _found(
    name: str, path: Sequence[str], fields: Sequence[TableField]
) -> tuple[tuple[str, ...], Any]:
    """Returns the source's own spelling of a path, and the type of what is there."""
    found: list[str] = []
    kind: Any = {"type": "struct", "fields": fields}
    for part in path:
        inside = kind["fields"] if isinstance(kind, Mapping) and kind["type"] == "struct" else ()
        same = [one for one in inside if one["name"].lower() == part.lower()]
        if len(same) != 1:
            which = " has no column " if not same else " has several columns "
            raise mistake(name, f"the stream{which}{'.'.join([*found, part])}")
        found.append(same[0]["name"])
        kind = same[0]["type"]
    return tuple(found), kind


def _check_zone(name: str, zone: str) -> None:
    if not zone:
        return
    try:
        _local(pa.array([0, _YEAR_2400], pa.timestamp("us", "UTC")), zone)
    except (ValueError, KeyError):  # of Arrow, zoneinfo and datetime
        raise mistake(name, f"there is no time zone {zone}") from None


def mistake(name: str, what: str) -> OptionError:
    """Returns the error of a column; without a name, of all partition columns."""
    which = f"the column {name}" if name else "partition_by"
    return OptionError(
        f"{which} is wrong: {what}",
        action="name a column, or date, year, month or hour of a timestamp, as in "
        "{'day': \"date(timestamp, 'UTC')\"}",
        option="partition_by",
    )


def projected(batch: pa.RecordBatch, columns: Sequence[TableColumn]) -> pa.RecordBatch:
    """Returns a batch of these columns, with the names of the table. It copies no values."""
    arrays = [value_at(batch, one.path) for one in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


def value_at(batch: pa.RecordBatch, path: Sequence[str]) -> Any:
    """Returns the values of a column, or of a field of structs. A field of a null is null."""
    column: Any = batch.column(path[0])
    for name in path[1:]:
        # A name that begins with a dot or a bracket would count as a path of names.
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def value_of(batch: pa.RecordBatch, column: TableColumn) -> Any:
    """Returns the values of a column, with its function."""
    source = value_at(batch, column.path)
    if not column.function:
        return source
    local = _local(source, column.zone) if column.zone else source
    # numpy has all years that a timestamp may have. Arrow ends with 32767, Python with 9999.
    return _part(column.function, local.to_numpy(zero_copy_only=False))


def _part(function: str, moments: Any) -> Any:
    """Returns a part of each time, as an Arrow array. ``moments``: of numpy, NaT for null."""
    if function == "date":
        return pa.array(moments.astype("datetime64[D]"))
    if function == "hour":
        numbers = moments.astype("datetime64[h]").astype(np.int64) % 24
    elif function == "month":
        numbers = moments.astype("datetime64[M]").astype(np.int64) % 12 + 1
    else:
        numbers = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    return pa.array(numbers, mask=np.isnat(moments))


def _local(timestamps: Any, zone: str) -> Any:
    """Returns the times on the clocks of a zone: a name, or an offset such as ``+02:00``.

    From 2038 on, Arrow knows no summer time.
    """
    if zone[0] in "+-":  # Arrow 20 knows no offset as a zone
        offset = datetime.strptime(zone, "%z").utcoffset()
        utc = timestamps.cast(pa.timestamp("us"))
        return pc.add(utc, pa.scalar(offset, pa.duration("us")))
    local = pc.local_timestamp(timestamps.cast(pa.timestamp("us", zone)))
    within = pc.less(timestamps, pa.scalar(_ARROW_END, timestamps.type))
    if pc.all(within).as_py() is not False:
        return local
    later = pc.if_else(within, None, timestamps.cast(pa.int64())).to_pylist()
    known = ZoneInfo(zone)
    moments = [None if moment is None else _later_local(moment, known) for moment in later]
    return pc.coalesce(pa.array(moments, pa.timestamp("us")), local)


def _later_local(moment: int, zone: ZoneInfo) -> int:
    """Returns a time after 2036 on the clocks of a zone. Both: microseconds since 1970.

    The rules of a zone repeat with the calendar, at the latest from 2400 on. So it asks for a year
    before 2800.
    """
    since_2400 = moment * _MICROSECOND - (_YEAR_2400 - _EPOCH)
    alike = _YEAR_2400 + (since_2400 if since_2400 < timedelta() else since_2400 % _CYCLE)
    offset = alike.astimezone(zone).utcoffset() or timedelta()
    return moment + offset // _MICROSECOND
