"""What a table's properties say of its files, and the plan on its way to the tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch.delta.plan import file_settings, parse_plans, plans_text
from kfetch.errors import TableRefused
from tests.kfetch.delta.tables import MIB, column, plan_of

CODEC = "delta.parquet.compression.codec"


def test_defaults() -> None:
    """Files of 128 MiB with zstd, and row groups of 32 MiB."""
    expected = {
        "codec": "zstd",
        "statistics_columns": 32,
        "file_bytes": 128 * MIB,
        "row_group_bytes": 32 * MIB,
    }
    assert expected == file_settings({}, 256 * MIB)


def test_little_memory_makes_small_row_groups() -> None:
    """A task's rows take an eighth of the agent's memory at most."""
    assert 8 * MIB == file_settings({}, 64 * MIB)["row_group_bytes"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("104857600", 100 * MIB), ("16mb", 16 * MIB), ("1G", 1024 * MIB), ("512 KB", MIB // 2)],
)
def test_sizes(text: str, size: int) -> None:
    """A number of bytes, or one with a unit, as Delta takes them."""
    assert size == file_settings({"delta.targetFileSize": text}, MIB)["file_bytes"]


def test_other_properties() -> None:
    """The codec in any case and by its other names, and the number of columns."""
    for text, codec in (("SNAPPY", "snappy"), ("lz4_raw", "lz4"), ("uncompressed", "none")):
        assert codec == file_settings({CODEC: text}, MIB)["codec"]
    indexed = {"delta.dataSkippingNumIndexedCols": "-1"}
    assert -1 == file_settings(indexed, MIB)["statistics_columns"]


@pytest.mark.parametrize(
    ("name", "text"),
    [(CODEC, "lzo"), ("delta.targetFileSize", "large"), ("delta.targetFileSize", "")],
)
def test_wrong_properties(name: str, text: str) -> None:
    """The error names the property."""
    with pytest.raises(TableRefused, match=name):
        file_settings({name: text}, MIB)


def test_a_plan_travels_as_text(tmp_path: Path) -> None:
    """It is an option of Spark, and options are texts."""
    day = column("day", "at", "date", function="date", zone="UTC")
    plan = plan_of(tmp_path, ["ü", "n"], [day])

    assert [plan, plan] == parse_plans(plans_text([plan, plan]))
