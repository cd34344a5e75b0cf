"""Writes a checkpoint for Spark's Kafka connector: ``kfetch checkpoint to-kafka``.

Spark reads the last two files of ``offsets``: the end of the last batch, and its start if it has to
run again. Both get the connector's form of offsets. In both forms the offset is the next one to
read. So a batch that was planned and not done keeps its records. Where kfetch would not start it at
the end of the batch before, that end becomes kfetch's start. A source's first batch that is not
done also needs its start in ``sources/<source>/0``.

kfetch reads both forms. So each file may be replaced on its own, and an interrupted command can be
repeated. Lines of other sources stay as they are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kfetch.admin.checkpoint import Checkpoint, batch_numbers, read_batch, read_checkpoint
from kfetch.admin.checkpoint_use import check_at_rest, hold_lease
from kfetch.admin.offset_log import PlannedBatch, Writer, initial_text
from kfetch.errors import CheckpointError, CheckpointInUse
from kfetch.offsets import Offsets, Position

_READ_BY_SPARK = 2
_BACKED_UP = ("offsets", "commits", "sources", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What ``to_connector`` did."""

    files: tuple[Path, ...]
    """The files that it wrote. Empty if no source has offsets of kfetch."""
    sources: tuple[str, ...] = ()
    """The sources whose offsets are the connector's now."""
    backup: Path | None = None
    forgotten: Mapping[str, int] | None = None
    """Topics that left the query, with the number of partitions whose position kfetch kept."""


def to_connector(path: Path, *, force: bool = False) -> Conversion:
    """Write a checkpoint's offsets in the form of Spark's connector, after a backup.

    ``force``: the caller knows that no query runs. Raises CheckpointInUse if a query may run, and
    CheckpointError if the checkpoint can't be read or written.
    """
    with hold_lease(path) as check:
        checkpoint = read_checkpoint(path)
        texts = _new_texts(checkpoint)
        if not texts:
            return Conversion(files=())
        if not force:
            check_at_rest(checkpoint)
        numbers = batch_numbers(path / "offsets")
        backup = _back_up(path)
        try:
            for file, text in texts.items():
                check()
                _replace(file, text)
        except OSError as cause:
            raise CheckpointError(
                f"{path} can't be written: {cause.strerror}",
                action=f"The backup is in {backup}. Mend the cause, and run the command again",
                file=str(path),
            ) from None
        if numbers != batch_numbers(path / "offsets"):
            raise CheckpointInUse(
                f"a query has written {path} meanwhile",
                action="Stop the query, and run the command again",
                file=str(path),
            )
    return Conversion(
        files=tuple(texts),
        sources=tuple(line.name for line in checkpoint.lines if line.writer is Writer.KFETCH),
        backup=backup,
        forgotten=_forgotten(checkpoint),
    )


def _new_texts(checkpoint: Checkpoint) -> dict[Path, str]:
    """Returns the new text of each file that has offsets of kfetch and that Spark reads."""
    path, texts = checkpoint.directory, {}
    for number in batch_numbers(path / "offsets")[-_READ_BY_SPARK:]:
        batch = read_batch(path, number)
        if checkpoint.pending and checkpoint.planned and number != checkpoint.planned.number:
            batch = _as_start_of(checkpoint.planned, batch)
        if any(line.writer is Writer.KFETCH for line in batch.lines):
            texts[path / "offsets" / str(number)] = batch.with_connector_offsets().text()
    return _first_starts(checkpoint) | texts


def _as_start_of(planned: PlannedBatch, before: PlannedBatch) -> PlannedBatch:
    """Returns the batch ``before`` with the offsets at which kfetch starts the planned one."""
    ends = {line.name: line.offsets for line in planned.lines}
    lines = (replace(x, offsets=_start(x.offsets, ends.get(x.name))) for x in before.lines)
    return replace(before, lines=tuple(lines))


def _start(start: Offsets | None, end: Offsets | None) -> Offsets | None:
    """Returns where kfetch starts: a topic that was created again begins at offset 0.

    A topic that left and came back goes on where it left. The connector knows neither.
    """
    if start is None or end is None:
        return start
    start, ids = start.with_returned(end.positions, end.topic_ids), end.topic_ids
    again = {topic for topic, id_ in start.topic_ids.items() if ids.get(topic, id_) != id_}
    positions = {tp: Position(0) if tp.topic in again else p for tp, p in start.positions.items()}
    return replace(start, positions=positions)


def _first_starts(checkpoint: Checkpoint) -> dict[Path, str]:
    """Returns the files ``sources/<source>/0`` for a source's first batch that has to run again.

    That is batch 0, unless the source had no offset in the batches before.
    """
    return {
        checkpoint.directory / "sources" / line.name / "0": initial_text(start.positions)
        for number, line in enumerate(checkpoint.lines)
        if line.writer is Writer.KFETCH
        and checkpoint.is_first(number)
        and (start := checkpoint.start(number)) is not None
    }


def _forgotten(checkpoint: Checkpoint) -> dict[str, int]:
    topics: dict[str, int] = {}
    for line in checkpoint.lines:
        for tp in line.offsets.left if line.offsets else ():
            topics[tp.topic] = topics.get(tp.topic, 0) + 1
    return topics


def _back_up(path: Path) -> Path:
    """Copy the checkpoint's logs to ``<checkpoint>.backups``. The state of operators stays."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    home = path.with_name(f"{path.name}.backups")
    try:
        home.mkdir(exist_ok=True)
        backup = Path(tempfile.mkdtemp(dir=home, prefix=f"{stamp}-to-kafka-"))
        for name in _BACKED_UP:
            if (path / name).is_dir():
                shutil.copytree(path / name, backup / name)
            elif (path / name).exists():
                shutil.copy2(path / name, backup / name)
    except OSError as cause:
        raise CheckpointError(
            f"{path} can't be copied to {home}: {cause.strerror or cause}",
            action="nothing was changed; make room, or give yourself the right to write there",
            file=str(path),
        ) from None
    return backup


def _replace(file: Path, text: str) -> None:
    """Replace a file as a whole, with the owner and the mode of the old one.

    Hadoop would compare it with the checksum of the old text. A file without one is not checked.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        _like(file if file.exists() else file.parent, name)
        for checksum in (f".{file.name}.crc", f"{file.name}.crc", f".{file.name}.crc.crc"):
            file.with_name(checksum).unlink(missing_ok=True)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def _like(old: Path, new: str) -> None:
    """Give a new file the owner and the mode of an old one, or of the files in a directory."""
    status = old.stat()
    os.chmod(new, status.st_mode & 0o666)
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(new, status.st_uid, status.st_gid)
        except PermissionError:  # only root gives files away
            return
