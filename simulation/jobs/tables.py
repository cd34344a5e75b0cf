"""Stand-ins for Delta tables and Spark's DataFrames, as far as the writers of a micro-batch ask.

A table has versions, and in each the last micro-batch of every query: Delta's SetTransaction. A
write with a micro-batch that is not newer is skipped. Each commit is a step of the machine.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kfetch_jobs.config import TableLocation
from simulation.jobs.machine import Failure, Machine

Row = dict[str, Any]
_PLACE = ("topic", "partition", "offset", "timestamp")


_DEFAULTS = {f"update$default${number}": lambda: None for number in (1, 2, 3)}
"""Scala's default arguments, as Python sees them."""


@dataclass(slots=True)
class Version:
    """One version of a table."""

    rows: tuple[Row, ...] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)


class Lake:
    """All tables of a machine, by their places."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tables: dict[str, list[Version]] = {}
        self.settings: dict[str, str] = {}
        """Settings of the session."""
        self.conf = SimpleNamespace(
            set=self.settings.__setitem__, unset=lambda name: self.settings.pop(name, None)
        )
        self.before_commit: Callable[[], object] = lambda: None
        """Called right before each commit."""
        self.fault_in = -1
        """After how many commits the disk is full; -1: never."""

    def table(self, location: TableLocation) -> Table | None:
        """Returns a table; None if there is none."""
        self.machine.point()
        name = str(location)
        return Table(self, name) if name in self.tables else None

    def rows(self, name: str) -> tuple[Row, ...]:
        """Returns the rows of a table."""
        versions = self.tables.get(name)
        return versions[-1].rows if versions else ()

    def commit(
        self, name: str, rows: Iterable[Row], query: str | None = None, number: int = -1
    ) -> bool:
        """Give a table a new version. Returns False if it has the micro-batch already."""
        self.machine.point()
        versions = self.tables.get(name, [])
        last = versions[-1] if versions else Version()
        if query is not None and last.transactions.get(query, -1) >= number:
            return False
        if self.fault_in == 0:
            self.fault_in = -1
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.fault_in > 0:
            self.fault_in -= 1
        self.before_commit()
        known = {**last.transactions, **({query: number} if query is not None else {})}
        versions.append(Version(tuple(rows), known))
        self.tables[name] = versions
        self.machine.note("Delta", f"{name.rsplit('/', 1)[-1]} has version {len(versions) - 1}")
        self.machine.point()
        return True


class Frame:
    """A DataFrame of a few rows."""

    def __init__(self, lake: Lake, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._lake = lake
        self.columns = list(columns)
        self.rows = list(rows)
        self.sparkSession = lake
        self.name = ""

    def _of(self, rows: Sequence[Row], columns: Sequence[str] | None = None) -> Frame:
        return Frame(self._lake, self.columns if columns is None else columns, rows)

    def where(self, condition: str) -> Frame:
        """Returns the rows that fulfil a condition of the writers."""
        holds = _CONDITIONS.get(condition)
        if holds is None:
            raise Failure(f"the simulation does not know the condition {condition}")
        return self._of([row for row in self.rows if holds(row)])

    def select(self, *columns: str) -> Frame:
        """Returns some columns; ``_row.*``: the fields of a struct."""
        first = columns[0]
        if first.endswith(".*"):
            rows = [row[first[:-2]] for row in self.rows]
            return self._of(rows, [*rows[0]] if rows else [])
        return self._of([{name: row[name] for name in columns} for row in self.rows], columns)

    def selectExpr(self, *columns: str) -> Frame:
        """Returns some columns, with fields of the dead letter."""
        named = {text.rpartition(" AS ")[2]: text.partition(" AS ")[0] for text in columns}
        rows = [{name: _value(row, text) for name, text in named.items()} for row in self.rows]
        return self._of(rows, [*named])

    def drop(self, *names: str) -> Frame:
        """Returns the other columns."""
        rows = [{name: row[name] for name in row if name not in names} for row in self.rows]
        return self._of(rows, [name for name in self.columns if name not in names])

    def count(self) -> int:
        """Returns the number of rows."""
        self._lake.machine.point()
        return len(self.rows)

    def take(self, number: int) -> list[Any]:
        """Returns the first rows."""
        return [SimpleNamespace(**row) for row in self.rows[:number]]

    def isEmpty(self) -> bool:
        """Returns whether there is no row."""
        return not self.rows

    def persist(self) -> None:
        """Do nothing: the rows are in memory."""

    def unpersist(self) -> None:
        """Do nothing: the rows are in memory."""

    def alias(self, name: str) -> Frame:
        """Returns the frame under a name."""
        self.name = name
        return self

    def join(self, other: Frame, condition: str, how: str) -> Frame:
        """Returns the rows with the places of the other frame's rows, as a left join."""
        assert how == "left"
        there = {_place(row) for row in other.rows}
        rows = [
            {"s.error": row["error"], "t.offset": row["offset"] if _place(row) in there else None}
            for row in self.rows
        ]
        return self._of(rows, ["s.error", "t.offset"])

    @property
    def write(self) -> Writer:
        """A writer of these rows."""
        return Writer(self._lake, self.rows)


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _PLACE)


def _value(row: Row, text: str) -> Any:
    struct, dot, name = text.partition(".")
    inner = row[struct]
    return inner if not dot else None if inner is None else inner[name]


_CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "error IS NOT NULL": lambda row: row["error"] is not None,
    "_dead_letter IS NULL": lambda row: row["_dead_letter"] is None,
    "_row IS NOT NULL": lambda row: row["_row"] is not None,
    "_dead_letter IS NOT NULL": lambda row: row["_dead_letter"] is not None,
    "(s.error IS NULL) = (t.offset IS NOT NULL)": lambda row: (
        (row["s.error"] is None) == (row["t.offset"] is not None)
    ),
}


class Writer:
    """``DataFrame.write``."""

    def __init__(self, lake: Lake, rows: Sequence[Row]) -> None:
        self._lake, self._rows, self._options = lake, rows, dict[str, Any]()

    def format(self, name: str) -> Writer:
        """Returns the writer; a table is always one of Delta."""
        assert name == "delta"
        return self

    def mode(self, name: str) -> Writer:
        """Returns the writer, which appends."""
        assert name == "append"
        return self

    def options(self, **options: Any) -> Writer:
        """Returns the writer with options."""
        self._options |= options
        return self

    def option(self, name: str, value: Any) -> Writer:
        """Returns the writer with an option."""
        return self.options(**{name: value})

    def partitionBy(self, *_: str) -> Writer:
        """Returns the writer."""
        return self

    def save(self, name: str) -> None:
        """Append the rows, unless the table has their micro-batch."""
        rows = (*self._lake.rows(name), *self._rows)
        self._lake.commit(name, rows, self._options["txnAppId"], int(self._options["txnVersion"]))


class Table:
    """``DeltaTable``: a table that is there."""

    def __init__(self, lake: Lake, name: str) -> None:
        self._lake, self._name = lake, name

    @property
    def _jdt(self) -> Any:
        """The table in the JVM, for its log of transactions."""
        known = self._lake.tables[self._name][-1].transactions
        each = [
            SimpleNamespace(appId=lambda q=query: q, version=lambda n=number: n)
            for query, number in known.items()
        ]
        listed = SimpleNamespace(size=lambda: len(each), apply=lambda n: each[n])
        snapshot = SimpleNamespace(setTransactions=lambda: listed)
        return SimpleNamespace(
            deltaLog=lambda: SimpleNamespace(update=lambda *_: snapshot, **_DEFAULTS)
        )

    def alias(self, _: str) -> Table:
        """Returns the table under a name."""
        return self

    def toDF(self) -> Frame:
        """Returns the rows."""
        rows = self._lake.rows(self._name)
        return Frame(self._lake, [*rows[0]] if rows else [], rows)

    def merge(self, source: Frame, condition: str) -> LettersMerge:
        """Returns a merge of dead letters, which compares places."""
        assert all(f"t.{name} <=> s.{name}" in condition for name in _PLACE)
        return LettersMerge(self._lake, self._name, source)


class LettersMerge:
    """The MERGE that replaces dead letters."""

    def __init__(self, lake: Lake, name: str, source: Frame) -> None:
        self._lake, self._name, self._source = lake, name, source
        self._clauses: list[str] = []

    def whenMatchedDelete(self, condition: str) -> LettersMerge:
        """Returns the merge, which deletes letters of records that can be decoded."""
        assert condition == "s.error IS NULL"
        self._clauses.append("delete")
        return self

    def whenMatchedUpdate(self, condition: str, values: Mapping[str, str]) -> LettersMerge:
        """Returns the merge, which updates the errors of letters."""
        assert (condition, values) == ("NOT t.error <=> s.error", {"error": "s.error"})
        self._clauses.append("update")
        return self

    def whenNotMatchedInsert(self, condition: str, values: Mapping[str, str]) -> LettersMerge:
        """Returns the merge, which inserts new letters."""
        assert condition == "s.error IS NOT NULL"
        assert all(value == f"s.{name}" for name, value in values.items())
        self._clauses.append("insert")
        return self

    def execute(self) -> None:
        """Merge in one commit, without a record of a micro-batch."""
        source = {_place(row): row for row in self._source.rows}
        rows = []
        for row in self._lake.rows(self._name):
            match = source.pop(_place(row), None)
            if match is None or "delete" not in self._clauses or match["error"] is not None:
                error = row["error"] if match is None else match["error"]
                rows.append({**row, "error": error} if "update" in self._clauses else row)
        if "insert" in self._clauses:
            rows += [row for row in source.values() if row["error"] is not None]
        self._lake.commit(self._name, rows)


class RowsMerge:
    """The MERGE of a micro-batch by keys. The session's settings name the micro-batch."""

    def __init__(self, lake: Lake, name: str, keys: Sequence[str], source: Frame) -> None:
        self._lake, self._name, self._keys, self._source = lake, name, keys, source

    def whenMatchedUpdateAll(self, condition: object) -> RowsMerge:
        """Returns the merge; all rows of a simulation are equally new."""
        return self

    def whenNotMatchedInsertAll(self) -> RowsMerge:
        """Returns the merge."""
        return self

    def execute(self) -> None:
        """Merge in one commit."""
        lake = self._lake
        rows = {self._key(row): row for row in lake.rows(self._name)}
        rows |= {self._key(row): row for row in self._source.rows}
        query = lake.settings.get("spark.databricks.delta.write.txnAppId")
        number = int(lake.settings.get("spark.databricks.delta.write.txnVersion", -1))
        lake.commit(self._name, rows.values(), query, number)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._keys)


class MergedTable:
    """A ``DeltaTable`` into which a micro-batch is merged."""

    def __init__(self, lake: Lake, name: str, keys: Sequence[str]) -> None:
        self._lake, self._name, self._keys = lake, name, keys

    def alias(self, _: str) -> MergedTable:
        """Returns the table under a name."""
        return self

    def merge(self, source: Frame, _: object) -> RowsMerge:
        """Returns a merge by the keys."""
        return RowsMerge(self._lake, self._name, self._keys, source)
