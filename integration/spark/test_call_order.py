"""The simulated Spark calls a source as Spark's own MicroBatchExecution does, after restarts too.

Each history of ``call_order`` runs in Spark and in the simulator. Both must make the same calls
with the same arguments.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from integration.spark.call_order import (
    HISTORIES,
    SIDE_BY_SIDE,
    Call,
    ModelSide,
    RealSide,
    needing_own_spark,
)
from integration.streams import wait_until
from simulation.spark.executor import MAX_FAILURES

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The room of histories whose Spark was killed in their first run."""
    room = tmp_path_factory.mktemp("killed")
    spark = subprocess.Popen(
        [sys.executable, "-m", "integration.spark.call_order", str(room)], cwd=ROOT
    )
    try:
        wait_until(lambda: (room / "ready").exists() or spark.poll() is not None, what="Spark")
        assert spark.poll() is None
    finally:
        _kill(spark)
    return room


def _kill(spark: subprocess.Popen[bytes]) -> None:
    """End a Spark with everything that it has started, as a power failure does."""
    with suppress(psutil.NoSuchProcess):  # it has failed
        processes = psutil.Process(spark.pid).children(recursive=True)
        for process in [psutil.Process(spark.pid), *processes]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    spark.wait()


@pytest.fixture(scope="module")
def real(
    spark: SparkSession, killed: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[list[Call]]]:
    """The calls that Spark makes in each history. The histories run side by side."""
    elsewhere = needing_own_spark()
    room = tmp_path_factory.mktemp("real")

    def play(name: str) -> list[list[Call]]:
        own = name in elsewhere
        side = RealSide(spark, (killed if own else room) / name)
        first, *later = HISTORIES[name]
        calls = [side.recorded(0, first) if own else side.play(0, first)]
        return calls + [side.play(number, run) for number, run in enumerate(later, 1)]

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip(HISTORIES, pool.map(play, HISTORIES), strict=True))


@pytest.mark.parametrize("name", HISTORIES)
def test_the_same_calls(name: str, real: dict[str, list[list[Call]]], tmp_path: Path) -> None:
    """Spark and its model make the same calls, in the same order, with the same arguments."""
    side = ModelSide(tmp_path)
    model = []
    for number, run in enumerate(HISTORIES[name]):
        own = number == 0 and name in needing_own_spark()
        model.append(side.play(number, run, tries=MAX_FAILURES if own else 1))

    assert real[name] == model
