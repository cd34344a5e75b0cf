"""Faults of straight writes that are planted on purpose. The simulation must find each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import deltalake

from kfetch.delta.copying import TableCopy
from kfetch.delta.files import DataFile
from kfetch.delta.log import TableLog, WrittenFile


@contextmanager
def commit_without_transaction() -> Iterator[None]:
    """The transaction is left out of a commit, as deltalake before 1.6 does."""
    properties = deltalake.CommitProperties
    with patch.object(deltalake, "CommitProperties", lambda **_: properties()):
        yield


@contextmanager
def file_of_a_failed_attempt_in_the_log() -> Iterator[None]:
    """The driver commits what it finds in the table's directory, and not what tasks told of."""
    commit = TableLog.commit

    def with_others(
        self: TableLog, query: str, batch: int, files: Sequence[WrittenFile], check: Any
    ) -> bool:
        known = {file.path for file in (*files, *_committed(self))}
        root = self._directory
        more = [
            WrittenFile(
                path=path.name, size=path.stat().st_size, rows=1, partitions={}, statistics="{}"
            )
            for path in root.iterdir()
            if path.name.startswith("part-") and path.name not in known
        ]
        return commit(self, query, batch, [*files, *more], check)

    with patch.object(TableLog, "commit", with_others):
        yield


def _committed(log: TableLog) -> Sequence[Any]:
    return [add for version in log._table._log.versions for add in version.adds]


@contextmanager
def unfinished_file_told() -> Iterator[None]:
    """A task tells of a file before the footer is written."""
    close = DataFile.close

    def early(self: DataFile) -> Any:
        row = close(self)
        (self._place / self._path).open("w").close()
        return row

    with patch.object(DataFile, "close", early):
        yield


@contextmanager
def batch_written_again() -> Iterator[None]:
    """A micro-batch that the table has already is committed again."""
    with patch.object(TableLog, "has_batch", lambda *_: False):
        yield


@contextmanager
def files_committed_one_by_one() -> Iterator[None]:
    """Each file of a micro-batch is a commit of its own."""
    committed = TableCopy._committed

    def one_by_one(self: TableCopy, found: Mapping[str, Any], *rest: Any) -> Any:
        ((table, files),) = found.items()
        results = [committed(self, {table: [file]}, *rest) for file in files]
        return results[0] if results else committed(self, found, *rest)

    with patch.object(TableCopy, "_committed", one_by_one):
        yield


@contextmanager
def lease_not_asked() -> Iterator[None]:
    """The check of the lease is left out before a commit of files."""
    commit = TableLog.commit

    def unchecked(
        self: TableLog, query: str, batch: int, files: Sequence[WrittenFile], check: Any
    ) -> bool:
        return commit(self, query, batch, files, lambda: None)

    with patch.object(TableLog, "commit", unchecked):
        yield


PLANTED: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    planted.__name__.replace("_", "-"): planted
    for planted in (
        commit_without_transaction,
        file_of_a_failed_attempt_in_the_log,
        unfinished_file_told,
        batch_written_again,
        files_committed_one_by_one,
        lease_not_asked,
    )
}
