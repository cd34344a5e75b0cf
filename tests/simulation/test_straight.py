"""Simulations of straight writes: they hold, find planted faults, and their table is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from kfetch.delta.log import TableLog
from simulation.kernel import Kernel
from simulation.kernel.substitution import patched
from simulation.machine import Machine
from simulation.parts import run_straight
from simulation.straight.disk import Disk
from simulation.straight.planted import PLANTED
from simulation.straight.table import Table, delta_table
from simulation.straight.world import Others

pytestmark = pytest.mark.simulation

_QUERY = "q"


def test_straight_writes_hold() -> None:
    """Killed, full, cut, blind, conflicting: each record is once in the table's log.

    Runs change between straight and Spark on one table, and both commit.
    """
    results = [run_straight(seed) for seed in (1, 2, 4, 5, 6, 7, 8, 9)]
    assert [""] * 8 == [result.failure for result in results]
    told = "\n".join(line for result in results for line in result.story)
    for line in (
        "a run writes straight",
        "a run writes through Spark",
        "kfetch commits",
        "Spark commits",
    ):
        assert line in told


def test_a_seed_is_one_story() -> None:
    """The same seed gives the same run. Without events, it is another one that holds, too."""
    first, again, quiet = run_straight(5), run_straight(5), run_straight(5, events=())
    assert first == again
    assert "" == quiet.failure
    assert first.story != quiet.story


def test_an_attempt_that_nobody_needs_is_no_leak() -> None:
    """It reads for minutes after everything is delivered, and its agent is not idle so long."""
    found = run_straight(267670817, events=(55, 56, 57, 59, 82, 83, 85, 98, 99))
    assert "" == found.failure


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault: str) -> None:
    """Each within a few seeds. The seed holds without the fault."""
    seed = next(seed for seed in range(40) if run_straight(seed, fault=fault).failure)
    assert "" == run_straight(seed).failure


# -- the stand-in for delta-rs, beside delta-rs ------------------------------------------------


class Real:
    """A table of delta-rs on a disk, and another writer of it."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory)

    def appends(self) -> None:
        """See Others."""
        _add(DeltaTable(self.path))

    def compacts(self) -> None:
        """See Others."""
        # The oldest delta-rs has none. Its tests read this file, and leave the simulator out.
        from deltalake.transaction import RemoveAction

        removed = RemoveAction("part-0.parquet", False, 0)
        _add(DeltaTable(self.path), removed)

    def adds_a_column(self) -> None:
        """See Others."""
        DeltaTable(self.path).alter.add_columns([deltalake.Field("c1", "string")])

    def sets_a_property(self) -> None:
        """See Others."""
        properties = {"delta.logRetentionDuration": "interval 1 days"}
        DeltaTable(self.path).alter.set_table_properties(properties)

    def has_the_batch(self) -> None:
        """Another process of the query commits the micro-batch."""
        _add(DeltaTable(self.path), batch=1)


class Simulated:
    """The stand-in, and another writer of it."""

    def __init__(self, table: Table) -> None:
        self.table, self.path, self._others = table, table.path, Others(table)
        self.appends, self.compacts = self._others.append, self._others.compact
        self.adds_a_column = self._others.add_column

    def sets_a_property(self) -> None:
        """See Others."""
        self._others.change("delta.logRetentionDuration", "interval 1 days")

    def has_the_batch(self) -> None:
        """Another process of the query commits the micro-batch."""
        self.table.commit(
            replace(self.table.versions[-1], adds=[], removes=frozenset(), transactions={_QUERY: 1})
        )


def _add(table: Any, *more: Any, batch: int | None = None) -> None:
    """Append a file that nobody reads, perhaps as a micro-batch."""
    path = "compacted.parquet" if more else f"part-{batch or 0}.parquet"
    transactions = [] if batch is None else [deltalake.Transaction(_QUERY, batch)]
    table.create_write_transaction(
        [
            AddAction(path, 1, {}, 0, not more, "{}"),
            *more,
        ],
        mode="append",
        schema=table.schema(),
        partition_by=[],
        commit_properties=deltalake.CommitProperties(app_transactions=transactions),
    )


def _answers(other: Real | Simulated, between: str) -> list[object]:
    """Returns what a writer hears if another one comes between its look and its commit."""
    log = TableLog(Path(other.path), [_field("a")], [])
    log.open(merge_schema=False)
    table = deltalake.DeltaTable(other.path)
    _add(table, batch=0)
    seen = [table.version(), table.transaction_version(_QUERY)]
    table.update_incremental()
    if between:
        getattr(other, between)()
    try:
        _add(table, batch=1)
        heard = ""
    except CommitFailedError:
        heard = "refused"
    table.update_incremental()
    fresh = deltalake.DeltaTable(other.path)
    names = [field.name for field in fresh.schema().fields]
    last = table.transaction_version(_QUERY)
    return [*seen, heard, last, table.version(), fresh.version(), names]


def _in_simulation(call: Callable[[Simulated], list[object]]) -> list[object]:
    """Returns what a process of a simulated machine gets."""
    kernel = Kernel(1)
    machine = Machine(kernel, programs={})
    disk = Disk(machine, pace_s=0.1)
    table = Table(disk, "/lake/rows")
    disk.put("/lake/rows/README", "")
    answers: list[object] = []
    process = machine.adopt(kernel.spawn("driver"), machine.init, "python3").process
    process.start(lambda: answers.extend(call(Simulated(table))))
    with patched({**disk.patches(), ("deltalake", "DeltaTable"): delta_table(table)}):
        kernel.run()
        kernel.close()
    assert not kernel.crashes
    return answers


def _field(name: str) -> Any:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


@pytest.mark.parametrize(
    "between", ["", "appends", "compacts", "adds_a_column", "sets_a_property", "has_the_batch"]
)
def test_the_table_answers_as_delta_rs_does(between: str, tmp_path: Path) -> None:
    """What passes, what is refused, and what a writer knows then."""
    real = _answers(Real(tmp_path), between)
    simulated = _in_simulation(lambda other: _answers(other, between))
    assert real == simulated
