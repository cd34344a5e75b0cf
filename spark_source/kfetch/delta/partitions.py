"""The partition columns of a table: how a row gets its values, and what the log says of them. Pure.

A partition column is a column of the stream, or ``date``, ``year``, ``month`` or ``hour`` of a
timestamp in a named zone. A table's files have no partition columns; the log has their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfetch.delta.types import TableField, type_text
from kfetch.errors import OptionError

_EXPRESSION = re.compile(
    r"(?P<function>\w+)\s*\(\s*(?P<source>\w+)\s*(,\s*'(?P<zone>[^']*)'\s*)?\)"
)
_FUNCTIONS = {"date": "date", "year": "integer", "month": "integer", "hour": "integer"}
"""The functions of a timestamp, and the types of their results."""
_COLUMN_TYPES = {"string", "byte", "short", "integer", "long", "date", "boolean"}
"""The types of columns that may be partition columns."""
_CODES_MAX = 2**63
"""So many combinations of values have different codes."""
_ARROW_END = datetime(2037, 1, 1, tzinfo=UTC)
_YEAR_2400 = datetime(2400, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CYCLE = timedelta(days=146_097)
"""400 years, after which the calendar repeats, with its weeks."""
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")

Values = tuple[str | None, ...]
"""The values of all partition columns as the log has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """A partition column, and where its value comes from."""

    name: str
    source: str
    """A column of the stream."""
    function: str = ""
    """Of a timestamp; empty for the column itself."""
    zone: str = ""
    """The time zone of the function; empty for a timestamp without a zone."""


def parse_partitions(
    given: Mapping[str, str] | Sequence[str], fields: Sequence[TableField], zone: str
) -> tuple[PartitionColumn, ...]:
    """Returns the partition columns of ``partition_by``: columns, or names and expressions.

    ``fields``: the stream's columns. ``zone``: that of expressions without one. Raises OptionError.
    """
    if isinstance(given, str):
        given = [given]
    pairs = given if isinstance(given, Mapping) else {name: name for name in given}
    types = {field["name"].lower(): field for field in fields}
    parsed = tuple(_parsed(name, text, types, zone) for name, text in pairs.items())
    for number, one in enumerate(parsed):
        if one.name.lower() in {other.name.lower() for other in parsed[:number]}:
            raise _mistake(one.name, "it is there twice")
    if parsed and {one.source.lower() for one in parsed if not one.function} >= set(types):
        raise _mistake(
            "", "it names all columns, and a table needs one that is no partition column"
        )
    return parsed


def _parsed(name: str, text: str, types: Mapping[str, TableField], zone: str) -> PartitionColumn:
    call = _EXPRESSION.fullmatch(text.strip())
    source = call["source"] if call else text.strip()
    field = types.get(source.lower())
    if field is None:
        raise _mistake(name, f"the stream has no column {source}")
    if call is None:
        return _plain_column(name, field)
    if call["function"] not in _FUNCTIONS:
        raise _mistake(name, f"kfetch has no function {call['function']}")
    if field["type"] not in ("timestamp", "timestamp_ntz"):
        raise _mistake(name, f"{source} is {type_text(field['type'])}, and no timestamp")
    if name.lower() in types:
        raise _mistake(name, f"the stream has a column {name} already")
    named = "" if field["type"] == "timestamp_ntz" else (call["zone"] or zone)
    _check_zone(name, named)
    return PartitionColumn(name=name, source=field["name"], function=call["function"], zone=named)


def _plain_column(name: str, field: TableField) -> PartitionColumn:
    if name.lower() != field["name"].lower():
        raise _mistake(name, f"a partition column of {field['name']} needs the same name")
    if field["type"] not in _COLUMN_TYPES:
        raise _mistake(name, f"{type_text(field['type'])} is no type of a partition column")
    return PartitionColumn(name=field["name"], source=field["name"])


def _check_zone(name: str, zone: str) -> None:
    if not zone:
        return
    try:
        _local(pa.array([0, _YEAR_2400], pa.timestamp("us", "UTC")), zone)
    except (pa.ArrowInvalid, pa.ArrowKeyError, ZoneInfoNotFoundError):
        raise _mistake(name, f"there is no time zone {zone}") from None


def _mistake(name: str, what: str) -> OptionError:
    which = f"the partition column {name}" if name else "partition_by"
    return OptionError(
        f"{which} is wrong: {what}",
        action="name a column, or date, year, month or hour of a timestamp, as in "
        "{'day': \"date(timestamp, 'UTC')\"}",
        option="partition_by",
    )


def computed_fields(partitions: Sequence[PartitionColumn]) -> list[TableField]:
    """Returns the columns that a table has beside those of the stream."""
    return [
        {"name": one.name, "type": _FUNCTIONS[one.function], "nullable": True, "metadata": {}}
        for one in partitions
        if one.function
    ]


def split(
    batch: pa.RecordBatch, partitions: Sequence[PartitionColumn]
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Yields the rows of a batch by the values of their partition columns, in the rows' order."""
    if not batch.num_rows:
        return
    if not partitions:
        yield (), batch
        return
    texts, codes = _codes(batch, partitions)
    _, counts = np.unique(codes, return_counts=True)
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    for group in groups:
        rows = batch if len(groups) == 1 else batch.take(group)
        yield tuple(text[group[0]] for text in texts), rows


class _RowTexts:
    """The text of a row's value in one column."""

    def __init__(self, encoded: Any) -> None:
        self.codes: Any = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self._texts = _texts(encoded.dictionary)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> str | None:
        return self._texts[int(self.codes[row])]


def _codes(
    batch: pa.RecordBatch, partitions: Sequence[PartitionColumn]
) -> tuple[list[_RowTexts], Any]:
    """Returns the texts of each column, and for each row a number that stands for all of them."""
    texts: list[_RowTexts] = []
    codes: Any = np.zeros(batch.num_rows, np.int64)
    combinations = 1
    for one in partitions:
        text = _RowTexts(pc.dictionary_encode(_value(batch, one), null_encoding="encode"))
        texts.append(text)
        if combinations * len(text) > _CODES_MAX:
            found, codes = np.unique(codes, return_inverse=True)
            combinations = len(found)
        codes = codes * len(text) + text.codes
        combinations *= len(text)
    return texts, codes


def _value(batch: pa.RecordBatch, one: PartitionColumn) -> Any:
    source: Any = batch.column(one.source)
    if not one.function:
        return source
    local = _local(source, one.zone) if one.zone else source
    # numpy has all years that a timestamp may have. Arrow ends with 32767, Python with 9999.
    return _part(one.function, local.to_numpy(zero_copy_only=False))


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
    local = pc.local_timestamp(timestamps.cast(pa.timestamp("us", zone)))
    within = pc.less(timestamps, pa.scalar(_ARROW_END, timestamps.type))
    if zone[0] in "+-" or pc.all(within).as_py() is not False:
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


def _texts(values: Any) -> list[str | None]:
    if pa.types.is_date(values.type):  # Python's dates end with the year 9999
        return [_day_text(day) for day in values.cast(pa.int32()).to_pylist()]
    return [_text(value) for value in values.to_pylist()]


def _day_text(days: int | None) -> str | None:
    """Returns a day as Spark writes it. ``days``: since 1970."""
    if days is None:
        return None
    day = np.datetime64(days, "D")
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


def _text(value: object) -> str | None:
    """Returns a value as Delta's log has it. An empty text counts as null there."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == "" else str(value)


def directory(partitions: Sequence[PartitionColumn], values: Values) -> str:
    """Returns the directory of files with these values, for people: readers look into the log.

    Characters that a path or a URI would change are underscores there.
    """
    pairs = zip(partitions, values, strict=True)
    default = "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"{_safe(one.name)}={_safe(text or default)}/" for one, text in pairs)


def _safe(text: str) -> str:
    return _PLAIN.sub("_", text)[:64]
