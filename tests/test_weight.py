"""What importing costs: Spark imports the worker's half in every Python worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "kafka", "pyarrow", "pydantic", "spark_source.wire")
HEAVY += ("spark_source.agent", "spark_source.records", "socket")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("spark_source", HEAVY),
        ("spark_source.worker", HEAVY),
        # pyspark itself brings numpy, pyarrow and socket along.
        ("pyspark_kfetch", tuple({*HEAVY} - {"numpy", "pyarrow", "socket"})),
    ],
)
def test_import_is_light(module: str, heavy: tuple[str, ...]) -> None:
    """A fresh interpreter that imports the module has loaded no socket code and no numba."""
    code = f"import sys, {module}; print(*(m for m in {heavy!r} if m in sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert ("", 0) == (ran.stderr, ran.returncode)
    assert [] == ran.stdout.split()
