"""Copies of a checkpoint before its offsets were moved, and how far each move has got.

They are beside the checkpoint, in ``<checkpoint>.backups/<time>``: the checkpoint's own files, and
``move.json``. A move that was interrupted keeps the job from running: half of it may be done.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.checkpoint import Checkpoint
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.util.files import write_json

__all__ = [
    "Backup",
    "OffsetRange",
    "Stage",
    "TableVersion",
    "all_backups",
    "check_no_interrupted_move",
    "create_backup",
    "last_move",
]

KEPT_MAX = 20
"""Older ones are removed."""
_RECORD = "move.json"


class Stage(StrEnum):
    """How far a move has got."""

    BEGUN = "begun"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A Delta table, before rows were deleted from it."""

    name: str
    """Its path, or its name in the catalog."""
    by_name: bool
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of a partition whose rows come again, ``begin`` to before ``end``."""

    topic: str
    partition: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A move, and what was before it."""

    path: Path
    verb: str
    at_s: float
    batch: int
    """The micro-batch by which the job was moved."""
    stage: Stage
    tables: tuple[TableVersion, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    """Of a replay: what comes again."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint as it was."""
        return checkpoints.read_checkpoint(self.path)

    def at(self, stage: Stage) -> Backup:
        """Note how far it has got."""
        after = replace(self, stage=stage)
        record = asdict(after)
        del record["path"]
        write_json(self.path / _RECORD, record)
        return after


def create_backup(
    checkpoint: Checkpoint,
    verb: str,
    batch: int,
    tables: Sequence[TableVersion],
    now_s: float,
    ranges: Sequence[OffsetRange] = (),
) -> Backup:
    """Copy a checkpoint before it is changed."""
    home = _home(checkpoint.path)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    path = home / f"{stamp}-{batch}"
    shutil.copytree(checkpoint.path, path)
    made = Backup(
        path=path,
        verb=verb,
        at_s=now_s,
        batch=batch,
        stage=Stage.BEGUN,
        tables=tuple(tables),
        ranges=tuple(ranges),
    ).at(Stage.BEGUN)
    for old in all_backups(checkpoint.path)[:-KEPT_MAX]:
        shutil.rmtree(old.path)
    return made


def all_backups(checkpoint: Path) -> list[Backup]:
    """All backups of a checkpoint, the oldest first."""
    return sorted(
        (_read(record.parent) for record in _home(checkpoint).glob(f"*/{_RECORD}")),
        key=lambda backup: (backup.at_s, backup.batch),
    )


def last_move(checkpoint: Path) -> Backup | None:
    """The last move that was not undone."""
    moves = [backup for backup in all_backups(checkpoint) if backup.stage is not Stage.UNDONE]
    return moves[-1] if moves else None


def check_no_interrupted_move(job: Job) -> None:
    """Raise ConfigError, since another attempt would not help, if a move was interrupted."""
    path = checkpoints.local_directory(job)
    found = last_move(path) if path else None  # only local checkpoints are moved
    if found and found.stage is not Stage.DONE:
        what = "the undoing of a" if found.stage is Stage.UNDOING else "a"
        raise ConfigError(
            f"job {job.name}: {what} kfetch offsets {found.verb} was interrupted, and its "
            f"checkpoint and table may not fit each other: kfetch offsets undo {job.name} "
            "--execute puts back what was; where that can't be any more, put checkpoint and table "
            f"right by hand and move {found.path} away"
        )


def _home(checkpoint: Path) -> Path:
    return Path(f"{checkpoint}.backups")


def _read(path: Path) -> Backup:
    try:
        told = json.loads((path / _RECORD).read_text())
        tables = tuple(TableVersion(**table) for table in told.pop("tables"))
        ranges = tuple(OffsetRange(**each) for each in told.pop("ranges", ()))
        known = {"path": path, "stage": Stage(told["stage"]), "tables": tables, "ranges": ranges}
        return Backup(**told | known)
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise JobsError(
            f"{path / _RECORD} can't be used ({cause}): move the directory away if its backup is "
            "of no use any more"
        ) from None
