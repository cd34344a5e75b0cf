"""Backups of a checkpoint before each move of its offsets, and the stage of the move.

A backup is in ``<checkpoint>.backups/<time>``: the checkpoint's own files, and ``move.json``. After
an interrupted move the job does not run, because the move may be half done.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter

from kfetch.admin.checkpoint import Checkpoint
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import StoredPath
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.location import movable_path
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.util.files import sync, write_json

KEPT_MAX = 20
"""Limit of backups. kfetch removes older ones."""
_RECORD = "move.json"
_TICK_S = 0.001


class Stage(StrEnum):
    """The stage of a move."""

    BEGUN = "begun"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """The version of a Delta table before a move deleted rows from it."""

    name: str
    """The table's path, or its name in the catalog."""
    by_name: bool
    version: int
    queries: Mapping[str, int] = field(default_factory=dict)
    """The last micro-batch of each query that had written to it. Older records have none."""

    @property
    def location(self) -> TableLocation:
        """Where the table is."""
        path, name = (None, self.name) if self.by_name else (self.name, None)
        return TableLocation(path=path, table=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of a partition that the job reads again: from ``begin`` to before ``end``."""

    topic: str
    partition: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A move, and the backup before it."""

    path: StoredPath
    verb: str
    at_s: float
    batch: int
    """The number of the micro-batch that moved the job."""
    stage: Stage
    tables: tuple[TableVersion, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    """For a replay: the offsets that the job reads again, and of which it deleted rows."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics at the move, in hexadecimal digits: ``ranges`` are of these topics."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint before the move."""
        return checkpoints.read_checkpoint(self.path)

    @property
    def description(self) -> str:
        """The move in a few words: ``a kfetch offsets replay``."""
        what = "the undoing of a" if self.stage is Stage.UNDOING else "a"
        return f"{what} kfetch offsets {self.verb}"

    def record_stage(self, stage: Stage) -> Backup:
        """Write the stage to ``move.json``, and return the backup with it."""
        after = replace(self, stage=stage)
        record = asdict(replace(after, path=Path()))  # the store of a path can't be copied
        del record["path"]
        if isinstance(self.path, Path):
            write_json(self.path / _RECORD, record, lasting=True)
        else:
            (self.path / _RECORD).write_text(json.dumps(record, indent=2))
        return after


def create_backup(
    checkpoint: Checkpoint,
    verb: str,
    batch: int,
    tables: Sequence[TableVersion],
    now_s: float,
    ranges: Sequence[OffsetRange] = (),
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> Backup:
    """Copy a checkpoint before a move changes it, and return the backup.

    A power cut loses no part of it.

    ``now_s`` is in seconds since 1970. If the clock was set back, the backup is dated just after
    the one before, so that the order of moves stays.
    """
    home, earlier = _backups_directory(checkpoint.path), all_backups(checkpoint.path)
    at_s = max(now_s, earlier[-1].at_s + _TICK_S) if earlier else now_s
    stamp = datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = home / f"{stamp}-{batch}"
    _copy_tree(checkpoint.path, path)
    backup = Backup(
        path=path,
        verb=verb,
        at_s=at_s,
        batch=batch,
        stage=Stage.BEGUN,
        tables=tuple(tables),
        ranges=tuple(ranges),
        topic_ids=dict(topic_ids),
    ).record_stage(Stage.BEGUN)
    if isinstance(path, Path) and isinstance(home, Path):
        sync(*path.rglob("*"), path, home, home.parent)
    for old in earlier[: 1 - KEPT_MAX]:
        shutil.rmtree(old.path) if isinstance(old.path, Path) else old.path.remove_tree()
    return backup


def _copy_tree(source: StoredPath, target: StoredPath) -> None:
    if isinstance(source, Path) and isinstance(target, Path):
        shutil.copytree(source, target)
    elif isinstance(source, ObjectPath) and isinstance(target, ObjectPath):
        source.copy_tree(target)


def all_backups(checkpoint: StoredPath) -> list[Backup]:
    """Returns all backups of a checkpoint, the oldest first."""
    return sorted(
        (_read(path) for path in _recorded(_backups_directory(checkpoint))),
        key=lambda backup: (backup.at_s, backup.batch),
    )


def _recorded(home: StoredPath) -> list[StoredPath]:
    """The backups with a record. ``kfetch checkpoint to-kafka`` makes some without."""
    if isinstance(home, Path):
        return [record.parent for record in home.glob(f"*/{_RECORD}")]
    return [file.parent for file in home.files() if file.name == _RECORD]


def last_move(checkpoint: StoredPath) -> Backup | None:
    """Returns the backup of the last move that was not undone; None without one."""
    moves = [backup for backup in all_backups(checkpoint) if backup.stage is not Stage.UNDONE]
    return next(reversed(moves), None)


def interrupted_move(job: Job) -> Backup | None:
    """Returns the last move if it has begun and not ended; else None.

    Raises JobsError if the record of a move can't be used.
    """
    path = movable_path(job)
    move = last_move(path) if path else None
    return move if move and move.stage is not Stage.DONE else None


def check_no_interrupted_move(job: Job) -> None:
    """Raises ConfigError if a move was interrupted: another run would fail in the same way."""
    if move := interrupted_move(job):
        raise ConfigError(
            f"job {job.name}: {move.description} was interrupted, and its "
            f"checkpoint and table may not fit each other: kfetch offsets undo {job.name} "
            "--execute puts back what was; where that can't be any more, put checkpoint and table "
            f"right by hand and move {move.path} away"
        )


_BACKUP = TypeAdapter(Backup)


def _backups_directory(checkpoint: StoredPath) -> StoredPath:
    return checkpoint.parent / f"{checkpoint.name}.backups"


def _read(path: StoredPath) -> Backup:
    try:
        record = json.loads((path / _RECORD).read_text())
        return _BACKUP.validate_python(record | {"path": path})
    except (OSError, ValueError, TypeError) as cause:
        raise JobsError(
            f"{path / _RECORD} can't be used ({cause}): move the directory away if its backup is "
            "of no use any more"
        ) from None
