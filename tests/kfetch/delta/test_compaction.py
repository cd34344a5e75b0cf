"""What delta-rs's compaction does to a table. It is why docs/how-to/delta.md has Spark merge files.

If a test fails with a newer delta-rs, that fault is mended. Then change the page, and delete the
test.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from packaging.version import Version

from tests.kfetch.delta.tables import Table, field

QUERY = "75a0c3a1-0000-4000-8000-000000000000"


def test_delta_rs_writes_wrong_bounds_of_decimals(tmp_path: Path) -> None:
    """They pass through a double, and the value lies outside. So a reader skips its file."""
    number = Decimal("123456789.123456789123456789")
    table = Table(tmp_path / "t", [field("d", "decimal(38,18)")])
    for batch in range(2):
        rows = pa.record_batch({"d": pa.array([number], pa.decimal128(38, 18))})
        table.append(QUERY, batch, rows)

    DeltaTable(str(table.directory)).optimize.compact()

    (*_, merged) = (action["add"]["stats"] for action in table.actions() if "add" in action)
    assert json.loads(merged, parse_float=Decimal)["minValues"]["d"] > number


@pytest.mark.skipif(Version(deltalake.__version__) < Version("1.6.4"), reason="it was refused")
def test_two_compactions_double_the_rows(tmp_path: Path) -> None:
    """Both begin with one version, and both commit."""
    table = Table(tmp_path / "t", [field("n")])
    for batch in range(3):
        table.append(QUERY, batch, pa.record_batch({"n": [batch]}))
    first, second = (DeltaTable(str(table.directory)) for _ in range(2))

    first.optimize.compact()
    second.optimize.compact()

    assert [0, 0, 1, 1, 2, 2] == sorted(row["n"] for row in table.rows())
