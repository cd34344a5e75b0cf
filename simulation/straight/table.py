"""The log of one Delta table, and the class ``DeltaTable`` that delta-rs has for it.

A version is one commit, so readers see all of it or nothing. A writer that has not seen the last
version goes on behind commits that only add or rewrite files. It is refused after a change of
columns or properties, and after a commit of its own transaction, as delta-rs does. A commit may be
carried out although its writer hears of an error.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from deltalake import Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from simulation.machine.files import fail
from simulation.spark.executor import Row
from simulation.straight.disk import Disk

Fields = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a table's metadata says."""

    fields: Fields
    partitions: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One commit."""

    author: str
    columns: Columns
    """As they are after it."""
    adds: Sequence[AddAction] = ()
    removes: frozenset[str] = frozenset()
    """Paths."""
    transactions: Mapping[str, int] = field(default_factory=dict)


class Fate(StrEnum):
    """What becomes of a commit."""

    WELL = "well"
    LOST = "lost"
    """It does not reach the log."""
    UNANSWERED = "unanswered"
    """It is in the log, and its writer gets an error."""
    REPEATED = "repeated"
    """It is in the log, and its writer finds it there as that of another writer."""


class Table:
    """A table at a path."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk, self.path = disk, path
        self.versions: list[Version] = []
        self.rows: dict[str, Sequence[Row]] = {}
        """The rows of each file that was ever committed, by its path."""
        self.on_commit: Callable[[Version], object] = lambda version: None
        """Called with each version, before anybody sees it."""
        self.troubled_until = 0.0
        """Until then, commits fail by chance."""
        self._files = 0

    @property
    def columns(self) -> Columns:
        """What the last version says."""
        return self.versions[-1].columns

    def commit(self, version: Version) -> None:
        """Add a version."""
        self.on_commit(version)
        self.versions.append(version)
        content = " ".join([version.author, *(one.path for one in version.adds)])
        self.disk.put(f"{self.path}/_delta_log/{len(self.versions) - 1:020}.json", content)

    def other_file(self, rows: Sequence[Row]) -> AddAction:
        """Returns a file that somebody else has written. Its rows are known, and not its bytes."""
        self._files += 1
        path = f"other-{self._files}.parquet"
        self.rows[path] = rows
        return AddAction(path, 1, {}, 0, True, "{}")

    def live(self) -> dict[str, AddAction]:
        """Returns the files that a reader of the last version reads, by their paths."""
        files: dict[str, AddAction] = {}
        for version in self.versions:
            files.update((one.path, one) for one in version.adds)
            for path in version.removes:
                del files[path]
        return files

    def last_transaction(self, application: str, version: int) -> int | None:
        """Returns an application's last transaction up to a version."""
        known = (one.transactions.get(application) for one in self.versions[version::-1])
        return next((number for number in known if number is not None), None)

    def fate(self) -> Fate:
        """Returns what becomes of a commit now."""
        draw = self.disk.kernel.random
        troubled = self.disk.kernel.now < self.troubled_until and draw.random() < 0.7
        return draw.choice(list(Fate)) if troubled else Fate.WELL

    def conflict(self, seen: int, applications: Iterable[str]) -> str:
        """Returns why a writer that has seen a version is refused; empty if it is not."""
        mine = set(applications)
        for before, other in pairwise(self.versions[seen:]):
            if other.columns != before.columns:
                return "Metadata changed since last commit."
            if mine & other.transactions.keys():
                return "Concurrent transaction"
        return ""


def delta_table(table: Table) -> type:
    """Returns the class ``DeltaTable`` for a disk with one table."""

    class DeltaTable(_DeltaTable):
        _log = table

    return DeltaTable


class _DeltaTable:
    """What delta-rs knows of a table: a version, perhaps not the last one."""

    _log: Table

    def __init__(self, table_uri: str) -> None:
        assert table_uri == self._log.path
        self._log.disk.enter("load")
        if not self._log.versions:
            raise DeltaError("no log files")
        self._seen = len(self._log.versions) - 1
        self.alter = SimpleNamespace(add_columns=self._add_columns)

    @classmethod
    def is_deltatable(cls, table_uri: str) -> bool:
        """Returns whether there is a table."""
        cls._log.disk.enter("load")
        return bool(cls._log.versions)

    @classmethod
    def create(cls, table_uri: str, schema: Schema, mode: str, partition_by: list[str]) -> None:
        """Create the table."""
        assert mode == "error"
        log = cls._log
        log.disk.enter("commit")
        if log.versions:
            raise DeltaError("A Delta Lake table already exists at that location.")
        if log.disk.tree.full:
            fail(errno.ENOSPC, table_uri)
        fields = json.loads(schema.to_json())["fields"]
        columns = Columns(fields=fields, partitions=tuple(partition_by))
        log.commit(Version(author="kfetch", columns=columns))

    def version(self) -> int:
        """Returns the number of the version."""
        return self._seen

    def update_incremental(self) -> None:
        """Go on to the last version."""
        self._log.disk.enter("load")
        self._seen = len(self._log.versions) - 1

    def transaction_version(self, application: str) -> int | None:
        """Returns the last transaction of an application."""
        return self._log.last_transaction(application, self._seen)

    @property
    def _columns(self) -> Columns:
        return self._log.versions[self._seen].columns

    def protocol(self) -> Any:
        """Returns the oldest protocol."""
        return SimpleNamespace(min_writer_version=2, reader_features=None, writer_features=None)

    def metadata(self) -> Any:
        """Returns the id, the properties and the partition columns. Nobody makes it anew."""
        columns = self._columns
        return SimpleNamespace(
            id="table",
            configuration=columns.properties,
            partition_columns=list(columns.partitions),
        )

    def schema(self) -> Schema:
        """Returns the columns."""
        return Schema.from_json(json.dumps({"type": "struct", "fields": self._columns.fields}))

    def _add_columns(self, fields: Any) -> None:
        raise NotImplementedError("no simulated query adds columns")

    def create_write_transaction(
        self,
        actions: Sequence[AddAction],
        mode: str,
        schema: Schema,
        partition_by: list[str],
        commit_properties: CommitProperties,
    ) -> None:
        """Commit files with their transactions. The table stays at the version that it has seen."""
        assert mode == "append"
        log = self._log
        log.disk.enter("commit")
        fate = log.fate()
        if log.disk.tree.full:
            fail(errno.ENOSPC, log.path)
        if fate is Fate.LOST:
            fail(errno.EIO, log.path)
        transactions: list[Transaction] = commit_properties.app_transactions or []
        if why := log.conflict(self._seen, (one.app_id for one in transactions)):
            raise CommitFailedError(why)
        log.commit(
            Version(
                author="kfetch",
                columns=log.columns,
                adds=actions,
                transactions={one.app_id: one.version for one in transactions},
            )
        )
        log.disk.enter("committed")
        if fate is Fate.UNANSWERED:
            fail(errno.EIO, log.path)
        if fate is Fate.REPEATED:
            raise CommitFailedError("Concurrent transaction")
