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
        "statistics_paths": (),
        "file_bytes": 128 * MIB,
        "row_group_bytes": 32 * MIB,
        "upload_bytes": 0,
    }
    assert expected == file_settings({}, 256 * MIB, 2)


@pytest.mark.parametrize(("memory", "kept"), [(256 * MIB, 32 * MIB), (16 * MIB, 10 * MIB)])
def test_uploads_in_memory(memory: int, kept: int) -> None:
    """They may keep as much as rows do, and as much as one upload keeps in any case."""
    assert kept == file_settings({}, memory, 2, 10 * MIB)["upload_bytes"]


def test_little_memory_makes_small_row_groups() -> None:
    """All tasks of an executor together keep a quarter of the agent's memory."""
    for writers, expected in ((1, 16 * MIB), (2, 8 * MIB), (16, MIB)):
        assert expected == file_settings({}, 64 * MIB, writers)["row_group_bytes"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("104857600", 100 * MIB), ("16mb", 16 * MIB), ("1G", 1024 * MIB), ("512 KB", MIB // 2)],
)
def test_sizes(text: str, size: int) -> None:
    """A number of bytes, or one with a unit, as Delta takes them."""
    assert size == file_settings({"delta.targetFileSize": text}, MIB, 1)["file_bytes"]


def test_other_properties() -> None:
    """The codec in any case and by its other names, and the number of columns."""
    for text, codec in (("SNAPPY", "snappy"), ("lz4_raw", "lz4"), ("uncompressed", "none")):
        assert codec == file_settings({CODEC: text}, MIB, 1)["codec"]
    indexed = {"delta.dataSkippingNumIndexedCols": "-1"}
    assert -1 == file_settings(indexed, MIB, 1)["statistics_columns"]


def test_columns_with_statistics() -> None:
    """They are written as in Spark's SQL, with backticks around odd names."""
    for text, expected in (
        ("", ()),
        ("a, s.x ,z", (("a",), ("s", "x"), ("z",))),
        ("`odd,na.me`.`b``c`", (("odd,na.me", "b`c"),)),
    ):
        found = file_settings({"delta.dataSkippingStatsColumns": text}, MIB, 1)
        assert expected == found["statistics_paths"]


@pytest.mark.parametrize(
    ("name", "text"),
    [(CODEC, "lzo"), ("delta.targetFileSize", "large"), ("delta.targetFileSize", "")],
)
def test_wrong_properties(name: str, text: str) -> None:
    """The error names the property."""
    with pytest.raises(TableRefused, match=name):
        file_settings({name: text}, MIB, 1)


def test_a_plan_travels_as_text(tmp_path: Path) -> None:
    """It is an option of Spark, and options are texts."""
    day = column("day", "at", "date", function="date", zone="UTC")
    plan = plan_of(tmp_path, ["ü", "n"], [day], statistics_paths=(("ü", "x"),))

    assert [plan, plan] == parse_plans(plans_text([plan, plan]))
