"""The log of one Delta table: opens or creates the table, and commits files, with delta-rs.

A micro-batch is one commit of all its files together with the transaction (query id, batch number),
as Spark's sink makes it. A micro-batch that the log has already is not committed again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kfetch.delta.places import address, identity, is_misread, plain_errors, sync
from kfetch.delta.rules import TableDescription, check_partitions, check_table
from kfetch.delta.types import (
    TableField,
    check_case,
    check_fields,
    check_maps,
    check_names,
    unknown_fields,
)
from kfetch.errors import OptionError, TableRefused
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import StoredPath, versioned

log = logging.getLogger(__name__)

_ATTEMPTS = 10
"""How often a commit is tried, if others have changed the table. delta-rs itself goes on after
commits that only add or rewrite files."""
_PROBE_MAX = 8 << 20
"""The largest commit, in bytes, with which a store is asked whether it knows conditions."""
_PROBES_MAX = 20
"""How many of the last commits are looked at for one of this size."""
_PROBE_S = 30
"""How long this is repeated while the store fails: the client repeats no conditional write."""
_PROBE_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that a task has completed."""

    path: str
    """Below the table's directory."""
    size: int
    """In bytes."""
    rows: int
    partitions: Mapping[str, str | None]
    """In the order of the partition columns."""
    statistics: str
    """JSON, as the log has it."""


class TableLog:
    """A table whose columns fit a stream."""

    def __init__(
        self, directory: StoredPath, fields: Sequence[TableField], partitions: Sequence[str]
    ) -> None:
        """``fields``: the columns that the stream writes, those of ``partitions`` included.

        Raises TableRefused for a name that Delta does not allow, and for a path that delta-rs
        misreads.
        """
        check_names(fields)
        _check_path(directory)
        self._directory = directory
        self._fields = fields
        self._partitions = partitions
        self._table: Any = None
        """delta-rs's table."""
        self._newest: object = None
        """What tells the file of the newest known commit from another one; None if unknown."""
        self._checked: TableDescription | None = None
        self._batches: dict[tuple[int, str], int | None] = {}
        """The last micro-batch that the log has, by the table's version and the query."""

    @property
    def fields(self) -> Sequence[TableField]:
        """The table's columns, as they were last seen; none without a table."""
        return self._checked.fields if self._checked else ()

    def open(self, *, merge_schema: bool) -> TableDescription:
        """Open the table, create it if there is none, and add missing columns on request.

        Raises TableRefused if kfetch can't write the table, and OptionError without delta-rs.
        """
        if not _exists(self._directory):
            self._create()
        if added := self.look(merge_schema=merge_schema):
            before = self._table.version()
            with plain_errors(self._directory):
                self._table.alter.add_columns(_schema(added).fields)
            self._table = _loaded(self._directory)
            self._sync(before + 1)
        self._check_store()
        return self._check(self._fields)

    def look(self, *, merge_schema: bool) -> list[TableField]:
        """Returns the columns that ``open`` adds to the table, and changes nothing.

        Raises TableRefused if kfetch can't write the table, and OptionError without delta-rs.
        """
        if not _exists(self._directory):
            check_maps(self._fields)
            return []
        self._table = _loaded(self._directory)
        table = self._described()
        added = unknown_fields(self._fields, table.fields) if merge_schema else []
        self._check([field for field in self._fields if field not in added])
        if "timestampNtz" not in table.features:
            check_maps(added)
        return added

    def _check_store(self) -> None:
        """Raises TableRefused for a store that would let one commit replace another one."""
        probe = self._small_commit()
        if probe and not _patiently(versioned(probe).is_conditional):
            raise TableRefused(
                f"the store of the table {self._directory} ignores conditional writes "
                "(If-None-Match), so one commit could replace another one",
                action="use a store that knows them, as S3 does, or write with Spark: "
                "writeStream.format('delta')",
            )

    def _small_commit(self) -> ObjectPath | None:
        """Returns the newest small commit in a store; None if the last ones are all large."""
        newest = self._table.version()
        for version in range(newest, max(-1, newest - _PROBES_MAX), -1):
            file = self._commit_file(version)
            if not isinstance(file, ObjectPath):
                return None
            with suppress(FileNotFoundError):  # a checkpoint has replaced it
                if file.head()[1] <= _PROBE_MAX:
                    return file
        return None

    def has_batch(self, query: str, batch: int) -> bool:
        """Returns whether the log has a micro-batch of a query, or a later one."""
        with plain_errors(self._directory):
            self._update()
            now = (self._table.version(), query)
            if now not in self._batches:
                # delta-rs reads all commits behind the last checkpoint for it.
                self._batches = {now: self._table.transaction_version(query)}
        last = self._batches[now]
        return last is not None and last >= batch

    def _update(self) -> None:
        """Read what is new in the log. Raises TableRefused if it is that of another table now.

        delta-rs does not notice that a table was removed and made anew.
        """
        if self._newest is None or self._newest != self._newest_file():
            fresh = _loaded(self._directory)
            if fresh.metadata().id != self._table.metadata().id:
                raise TableRefused(
                    f"the table {self._directory} was removed and made anew meanwhile",
                    action="start the query again: it goes on with the new table",
                )
            self._table, self._newest = fresh, None
            self._batches.clear()
        before = self._table.version()
        self._table.update_incremental()
        if self._newest is None or self._table.version() != before:
            self._newest = self._newest_file()

    def _newest_file(self) -> object:
        """Returns None if the table is gone, or if a checkpoint has replaced the commit."""
        return identity(self._commit_file(self._table.version()))

    def _commit_file(self, version: int) -> StoredPath:
        return self._directory / "_delta_log" / f"{version:020}.json"

    def commit(
        self, query: str, batch: int, files: Sequence[WrittenFile], check: Callable[[], None]
    ) -> bool:
        """Add the files of a micro-batch. Returns False if the log has it with other files.

        ``check`` comes right before each try: it raises an error if this process must not write.
        Raises TableRefused if the table has changed so that the files do not fit any more. After an
        OSError, the commit may be in the log, or get there later.
        """
        from deltalake.exceptions import CommitFailedError, DeltaError

        _check_files(self._directory, files)
        first: int | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            if self.has_batch(query, batch):
                return first is not None and self._has_own(files, first)
            first = first or self._table.version() + 1
            self._check(self._fields)
            check()
            try:
                with plain_errors(self._directory):
                    self._add(query, batch, files)
            except (OSError, DeltaError) as cause:
                # The answer may be lost, or what delta-rs does behind a commit failed.
                if self.has_batch(query, batch) and self._has_own(files, first):
                    where = f"micro-batch {batch} is in the table {self._directory}"
                    log.warning("kfetch: %s, and then delta-rs failed: %s", where, cause)
                    return True
                if not isinstance(cause, CommitFailedError) or attempt == _ATTEMPTS:
                    raise
                log.info("kfetch: micro-batch %d is committed again: %s", batch, cause)
            else:
                self._sync(first)
                return True
        raise AssertionError("the last attempt returns or raises")

    def _has_own(self, files: Sequence[WrittenFile], first: int) -> bool:
        """Returns whether a commit from a version on has these files: no others have their names.

        A client that gets no answer repeats its request. Then its own commit is in its way.
        """
        own = files[0].path.encode()
        versions = range(first, self._table.version() + 1)
        found = any(own in self._commit_file(version).read_bytes() for version in versions)
        if found:
            self._sync(first)
        return found

    def _add(self, query: str, batch: int, files: Sequence[WrittenFile]) -> None:
        from deltalake import CommitProperties, Transaction

        partitions = self._described().partitions
        own = self._table.version() + 1
        self._table.create_write_transaction(
            [_add_action(file, partitions) for file in files],
            mode="append",
            schema=self._table.schema(),
            partition_by=list(partitions),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(query, batch, _now_ms())],
                custom_metadata={"isBlindAppend": True},
            ),
        )
        self._update()
        # Beside commits of others, the version is a later one, and the log is asked.
        self._batches = {(own, query): batch}

    def _sync(self, first: int) -> None:
        """Wait until the disk has the commits from a version on."""
        for version in range(first, self._table.version() + 1):
            sync(self._commit_file(version), self._directory)

    def _create(self) -> None:
        from deltalake.exceptions import DeltaError

        check_maps(self._fields)
        try:
            with plain_errors(self._directory):
                _delta_rs().DeltaTable.create(
                    **address(self._directory),
                    schema=_schema(self._fields),
                    mode="error",
                    partition_by=list(self._partitions),
                )
            sync(self._commit_file(0), self._directory)
        except DeltaError:
            # Another writer may have created it at the same time.
            if not _exists(self._directory):
                raise

    def _check(self, fields: Sequence[TableField]) -> TableDescription:
        """Raises TableRefused unless the table, as it is now, takes these columns."""
        table = self._described()
        if table != self._checked:
            check_table(table)
            check_partitions(table, self._partitions)
            check_fields(fields, table.fields, table.location)
            check_case(self.fields, table.fields, table.location)
            self._checked = table
        return table

    def _described(self) -> TableDescription:
        protocol, metadata = self._table.protocol(), self._table.metadata()
        features = (*(protocol.reader_features or ()), *(protocol.writer_features or ()))
        return TableDescription(
            location=str(self._directory),
            writer_version=protocol.min_writer_version,
            features=frozenset(features),
            properties=metadata.configuration,
            fields=json.loads(self._table.schema().to_json())["fields"],
            partitions=metadata.partition_columns,
        )


def last_batch(place: StoredPath, query: str) -> int:
    """Returns the last micro-batch of a query that a table has; -1 without one.

    Raises TableRefused and OSError if the table can't be read, and OptionError without delta-rs.
    """
    last = _loaded(place).transaction_version(query) if _exists(place) else None
    return -1 if last is None else int(last)


def _exists(place: StoredPath) -> bool:
    if isinstance(place, ObjectPath):
        # delta-rs would hold Python's lock meanwhile, and a lease could not be renewed.
        # Behind 0, because a killed writer of HDFS leaves a hidden file.
        return bool((place / "_delta_log").page_behind("0").names)
    return bool(_delta_rs().DeltaTable.is_deltatable(str(place)))


def _loaded(place: StoredPath) -> Any:
    from deltalake.exceptions import DeltaError

    try:
        with plain_errors(place):
            return _delta_rs().DeltaTable(**address(place))
    except DeltaError as cause:
        # A store's answer may follow, with parts of a request.
        reason, _, _ = str(cause).partition("\n")
        raise TableRefused(
            f"delta-rs can't read the table {place}: {reason}",
            action="write it with Spark: writeStream.format('delta')",
        ) from None


def _patiently(request: Callable[[], bool]) -> bool:
    give_up_at = time.monotonic() + _PROBE_S
    while True:
        try:
            return request()
        except OSError as cause:
            if isinstance(cause, PermissionError) or time.monotonic() >= give_up_at:
                raise
            time.sleep(_PROBE_PAUSE_S)


def _delta_rs() -> Any:
    try:
        import deltalake
    except ModuleNotFoundError:
        raise OptionError(
            "kfetch.delta needs the package deltalake",
            action="install it with pip install 'kfetch[delta]'",
        ) from None
    return deltalake


def _schema(fields: Sequence[TableField]) -> Any:
    return _delta_rs().Schema.from_json(json.dumps({"type": "struct", "fields": list(fields)}))


def _check_files(directory: StoredPath, files: Sequence[WrittenFile]) -> None:
    """Raises TableRefused unless this machine has the files: executors may have other disks."""
    if isinstance(directory, ObjectPath):
        return
    for file in files:
        try:
            found = (directory / file.path).stat().st_size
        except FileNotFoundError:
            found = -1
        if found != file.size:
            raise TableRefused(
                f"the driver does not see the file {file.path} of {directory} as a task wrote it",
                action="put the table on a disk that the driver and all executors share",
            )


def _check_path(directory: StoredPath) -> None:
    """Raises TableRefused for a path that delta-rs confuses with another one."""
    if is_misread(directory):
        raise TableRefused(
            f"delta-rs can't write tables in {directory}: the path has a percent sign before two "
            "digits, a backslash or a control character, or in HDFS a blank or a letter that a "
            "URI encodes",
            action="rename the directory, or write with Spark: writeStream.format('delta')",
        )


def _add_action(file: WrittenFile, partitions: Sequence[str]) -> Any:
    """``partitions``: the table's names. Readers find a value by exactly that name."""
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(zip(partitions, file.partitions.values(), strict=True)),
        modification_time=_now_ms(),
        data_change=True,
        stats=file.statistics,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
