"""The simulated Spark calls a source as Spark's own MicroBatchExecution does, after restarts too.

Each history of ``call_order`` runs in Spark and in the simulator. Both must make the same calls
with the same arguments.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from integration.spark.call_order import (
    COMMON,
    HISTORIES,
    RARE,
    Call,
    ModelSide,
    RealSide,
    in_groups,
    needs_own_spark,
)
from integration.streams import wait_until
from simulation.spark.executor import MAX_FAILURES

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> list[str]:
    """The histories of the tests that run now."""
    chosen = {item.name for item in request.session.items if item.path == request.path}
    return [name for name in HISTORIES if f"test_the_same_calls[{name}]" in chosen]


@pytest.fixture(scope="module")
def killed(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The room of histories whose Spark was killed in their first run."""
    room = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "integration.spark.call_order", str(room)]
    spark = subprocess.Popen([*command, *filter(needs_own_spark, names)], cwd=ROOT)
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
    names: list[str], spark: SparkSession, killed: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[list[Call]]]:
    """The calls that Spark makes in each history. The histories run side by side."""
    room = tmp_path_factory.mktemp("real")
    sides = {
        name: RealSide(spark, (killed if needs_own_spark(name) else room) / name) for name in names
    }
    calls: dict[str, list[list[Call]]] = {
        name: [sides[name].recorded(0, HISTORIES[name][0])] if needs_own_spark(name) else []
        for name in names
    }
    for number in range(max(len(HISTORIES[name]) for name in names)):
        present = {
            name: HISTORIES[name][number]
            for name in names
            if len(HISTORIES[name]) > number >= len(calls[name])
        }
        for some in in_groups(list(present)):
            for name in some:
                sides[name].start(number, present[name])
            for name in some:
                calls[name].append(sides[name].finish())
    return calls


@pytest.mark.parametrize(
    "name", [*COMMON, *(pytest.param(name, marks=pytest.mark.long) for name in RARE)]
)
def test_the_same_calls(name: str, real: dict[str, list[list[Call]]], tmp_path: Path) -> None:
    """Spark and its model make the same calls, in the same order, with the same arguments."""
    side = ModelSide(tmp_path)
    model = []
    for number, run in enumerate(HISTORIES[name]):
        own = number == 0 and needs_own_spark(name)
        model.append(side.play(number, run, tries=MAX_FAILURES if own else 1))

    assert real[name] == model
