"""What a task must know to write a table's files. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from kfetch.delta.columns import TableColumn
from kfetch.delta.statistics import COLUMNS
from kfetch.errors import TableRefused

_FILE_BYTES = 128 << 20
_ROW_GROUP_BYTES = 32 << 20
"""Decision record 117 has the measurement."""
_MEMORY_PARTS = 4
"""All tasks of an executor together keep at most one part of this many of the agent's memory."""
_NUMBER = re.compile(r"(-?\d+)\s*([kmgt]?)b?")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_CODECS = {"zstd", "snappy", "gzip", "brotli", "lz4", "none"}
_CODEC_NAMES = {"lz4_raw": "lz4", "uncompressed": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Where a query writes its files, and their columns, codec, statistics and sizes."""

    directory: str
    """The table's directory: an absolute path, or the URI of a store."""
    source_schema: str
    """The stream's columns, as the JSON of Spark's StructType."""
    columns: tuple[TableColumn, ...]
    """The columns of the files, in the table's order and with the table's names."""
    partitions: tuple[TableColumn, ...]
    records: Literal["all", "good", "dead"] = "all"
    """``good``: the records that can be decoded. ``dead``: the dead letters."""
    codec: str
    statistics_columns: int
    """How many leaf columns have statistics. A negative number: all."""
    statistics_paths: tuple[tuple[str, ...], ...]
    """These columns have statistics, with their fields. Empty: ``statistics_columns`` decides."""
    file_bytes: int
    """A file that has reached this size is complete."""
    row_group_bytes: int
    """A task writes its rows when those of all its open files together have this many bytes. The
    footers of these files may need as many bytes again."""
    upload_bytes: int
    """The bytes that the uploads of a task's open files may keep in memory; 0 on a disk."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Returns the plan that a document of ``plans_text`` describes."""
        for name in ("columns", "partitions"):
            given[name] = tuple(
                TableColumn(**one | {"path": tuple(one["path"])}) for one in given[name]
            )
        given["statistics_paths"] = tuple(map(tuple, given["statistics_paths"]))
        return cls(**given)


def plans_text(plans: Sequence[WritePlan]) -> str:
    """Returns plans as text."""
    return json.dumps([asdict(plan) for plan in plans])


def parse_plans(text: str) -> list[WritePlan]:
    """Returns the plans of a text of ``plans_text``."""
    return [WritePlan.of(document) for document in json.loads(text)]


def file_settings(
    properties: Mapping[str, str], memory_bytes: int, writers: int, upload_bytes: int = 0
) -> dict[str, Any]:
    """Returns the fields of a plan that a table's properties decide.

    ``memory_bytes``: the agent's memory. ``writers``: an executor's task slots, times the tables
    that each task writes. ``upload_bytes``: the bytes that one upload may keep in memory; 0 on a
    disk. Raises TableRefused for an invalid value.
    """
    codec = properties.get("delta.parquet.compression.codec", "zstd").lower()
    codec = _CODEC_NAMES.get(codec, codec)
    if codec not in _CODECS:
        raise TableRefused(
            f"the table's property delta.parquet.compression.codec is {codec}, and kfetch writes "
            f"{', '.join(sorted(_CODECS))}",
            action="change the property",
        )
    share = min(_ROW_GROUP_BYTES, memory_bytes // (_MEMORY_PARTS * writers))
    return {
        "codec": codec,
        "statistics_columns": _number(properties, "delta.dataSkippingNumIndexedCols", COLUMNS),
        "statistics_paths": _paths(properties.get("delta.dataSkippingStatsColumns", "")),
        "file_bytes": _number(properties, "delta.targetFileSize", _FILE_BYTES),
        "row_group_bytes": share,
        "upload_bytes": max(share, upload_bytes) if upload_bytes else 0,
    }


def _paths(text: str) -> tuple[tuple[str, ...], ...]:
    """Returns the columns of a list in Spark's SQL: ``a, s.x, `odd,name```."""
    quoted = re.findall(r"(?:`(?:[^`]|``)+`|[^,`])+", text)
    return tuple(
        tuple((one or plain.strip()).replace("``", "`") for one, plain in _NAME.findall(part))
        for part in map(str.strip, quoted)
        if part
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Returns a property that is a number or a size, such as 128mb."""
    text = properties.get(name, str(default))
    match = _NUMBER.fullmatch(text.strip().lower())
    if match is None:
        raise TableRefused(
            f"the table's property {name} is {text}, which is no number",
            action="change the property",
        )
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")
