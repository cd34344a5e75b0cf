"""Reads Spark's checkpoint of a query, on this machine or in an object store.

``offsets/<batch>`` is the plan of a micro-batch, and ``commits/<batch>`` exists once the batch is
done. Spark keeps the last hundred (``spark.sql.streaming.minBatchesToRetain``) and reads the last
two. ``sources/<source>/0`` has the start of batch 0 if Spark's connector planned it. See
MicroBatchExecution.populateStartOffsets of Spark 4.2.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from kfetch.admin.offset_log import PlannedBatch, SourceLine, Writer, parse_batch, parse_initial
from kfetch.errors import CheckpointError, OptionError
from kfetch.offsets import Offsets
from kfetch.storage.lease import Lease, parse
from kfetch.storage.locations import NO_KEYS, has_keys
from kfetch.storage.objects import ObjectPath, Page
from kfetch.storage.open import READABLE, StoredPath, lease_beside, stored_path
from kfetch.storage.versions import Version

__all__ = [
    "Checkpoint",
    "batch_numbers",
    "checkpoint_directory",
    "open_checkpoint",
    "read_batch",
    "read_checkpoint",
    "read_lease",
]

_FILE_URI = re.compile(r"file:(?:/{2}(?:localhost)?(?=/))?(/.*)", re.DOTALL)

_OTHER_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")

_READ_ONLY = "kfetch changes only checkpoints of this machine"
_NEAR = 100
"""So many micro-batches Spark keeps. A wider gap has none of them behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A query's progress. ``planned`` is None before the first micro-batch."""

    path: StoredPath
    query: str = ""
    """The query's id; empty before its first start."""
    planned: PlannedBatch | None = None
    """The last planned batch."""
    committed: int | None = None
    """The number of the last batch that is done."""
    before: PlannedBatch | None = None
    """The batch before ``planned``, if the next run repeats ``planned``."""
    initial: Mapping[str, Offsets] = field(default_factory=dict)
    """Where batch 0 starts, by the source's name, for sources that Spark's connector started."""

    @property
    def directory(self) -> Path:
        """The path, if it is on this machine.

        Raises CheckpointError for a checkpoint elsewhere: kfetch reads it, and does not change it.
        """
        if isinstance(self.path, Path):
            return self.path
        raise _elsewhere(str(self.path), _READ_ONLY)

    @property
    def pending(self) -> bool:
        """Whether the last planned batch is not done: the next run begins with it."""
        return self.planned is not None and self.planned.number != self.committed

    @property
    def sources(self) -> int:
        """The number of the query's sources; 0 before the first micro-batch."""
        return len(self.planned.sources) if self.planned else 0

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The last planned batch's lines, one for each source."""
        return self.planned.lines if self.planned else ()

    def end(self, source: int) -> Offsets | None:
        """Returns the end of the last planned batch in a source."""
        return self.planned.sources[source] if self.planned else None

    def start(self, source: int) -> Offsets | None:
        """Returns the offsets at which the next run continues; None: at ``startingOffsets``."""
        if not self.pending:
            return self.end(source)
        return self._end_before(source) or self._start_of_first(source)

    def is_first(self, source: int) -> bool:
        """Returns whether the next run repeats a source's first batch: no plan has its start."""
        return self.pending and self._end_before(source) is None

    def starts_unknown_to_kfetch(self) -> dict[str, Offsets]:
        """Returns the starts that only the connector's own files have, by the source's name.

        Those are starts of a first batch that is not done, and of sources without an offset. Spark
        gives a Python source no path of the checkpoint.
        """
        if self.planned is None:
            return dict(self.initial)
        names = {
            line.name
            for number, line in enumerate(self.lines)
            if line.writer is Writer.NONE
            or (line.writer is Writer.CONNECTOR and self.is_first(number))
        }
        return {name: start for name, start in self.initial.items() if name in names}

    def _end_before(self, source: int) -> Offsets | None:
        before = self.before.sources if self.before else ()
        return before[source] if source < len(before) else None

    def _start_of_first(self, source: int) -> Offsets | None:
        """Returns the start of a source's first batch: in kfetch's end, or in the connector's file.

        An empty first batch of kfetch starts where it ends.
        """
        end = self.end(source)
        if end is None:
            return None
        if self.lines[source].writer is Writer.CONNECTOR:
            return self.initial.get(self.lines[source].name)
        return Offsets(positions=end.first_batch or end.positions, topic_ids=end.topic_ids)


def checkpoint_directory(text: str) -> Path:
    """Returns the absolute path of a directory, or of a ``file:`` URI as Spark takes it.

    Hadoop decodes no percent signs, and knows neither queries nor fragments. So the text behind
    ``file:`` is the path. If no checkpoint is there, the path is decoded.

    The path stays below its name, also if that is a link: a job's lock lies beside that name.
    Raises CheckpointError for other file systems, and if there is no checkpoint.
    """
    if _is_elsewhere(text):
        raise _elsewhere(text, _READ_ONLY)  # without asking a store, which may take a while
    return Checkpoint(path=open_checkpoint(text, {})).directory


def open_checkpoint(text: str, settings: Mapping[str, str]) -> StoredPath:
    """Returns the path of a checkpoint, also in an object store. See ``checkpoint_directory``.

    ``settings``: Spark's, for the keys and the endpoint of a store. Raises OptionError if one of
    them can't be followed.
    """
    path: StoredPath
    if match := _FILE_URI.match(text):
        path = Path(os.path.abspath(match[1]))
        if not _is_checkpoint(path):
            path = Path(os.path.abspath(unquote(match[1])))
    elif _is_elsewhere(text):
        stored = stored_path(text, settings)
        if stored is None:
            raise _elsewhere(text, f"kfetch reads only {READABLE}")
        path = stored
    else:
        path = Path(os.path.abspath(text))
    if not _is_checkpoint(path):
        raise CheckpointError(
            f"{path} is no checkpoint of a query: it has neither offsets nor metadata",
            action="name the directory of the option checkpointLocation",
            file=str(path),
        )
    return path


def _is_elsewhere(text: str) -> bool:
    """Whether it is a URI of another file system. Raises OptionError if it has keys."""
    if has_keys(text):
        raise OptionError(NO_KEYS)
    return bool(_OTHER_URI.match(text)) and not _FILE_URI.match(text)


def _elsewhere(text: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint {text} is not on this machine, and {why}",
        action="Copy its directories offsets, commits and sources and its file metadata here, "
        "and name the copy. After a change, copy the files that the command names back",
        file=text,
    )


def _is_checkpoint(path: StoredPath) -> bool:
    try:
        return bool({"offsets", "metadata", "sources"} & {child.name for child in path.iterdir()})
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as cause:
        raise _unreadable(path, cause) from None


def read_checkpoint(path: StoredPath, *, near: int | None = None) -> Checkpoint:
    """Returns the checkpoint in a directory; an empty one if there is none.

    This reads the commits first. So a running query can't add a commit whose plan this misses.
    Raises CheckpointError if Spark or kfetch could not use the files that a start reads.

    ``near``: a micro-batch that may be one of the last. In a store it saves most requests if the
    numbers have no gaps, as those of a query without asynchronous progress. It may be wrong.
    """
    committed = max(_last_numbers(path / "commits", near), default=None)
    numbers = _last_numbers(path / "offsets", None if near is None else committed)
    if not numbers and committed is not None:
        raise _unusable(path / "commits", "has commits, but offsets has no plan of them")
    if not numbers:
        return Checkpoint(path=path, query=_query(path), initial=_initial(path))
    last = numbers[-1]
    repeats = last != committed and last > 0
    return Checkpoint(
        path=path,
        query=_query(path),
        planned=read_batch(path, last),
        committed=committed,
        before=read_batch(path, _number_before(numbers)) if repeats else None,
        initial=_initial(path),
    )


def read_lease(path: StoredPath) -> Lease | None:
    """Returns the lease beside a checkpoint; None if no job has made one, or if it is damaged.

    Jobs of kfetch-jobs hold it while they run. Raises CheckpointError if it can't be read.
    """
    version = lease_version(path)
    return parse(version.content) if version else None


def lease_version(path: StoredPath) -> Version | None:
    """Returns the file of ``read_lease`` as it is; None without one."""
    file = lease_beside(path)
    try:
        return file.read()
    except OSError as cause:
        raise CheckpointError(f"{file} can't be read: {cause.strerror}", file=str(file)) from None


def batch_numbers(log: StoredPath) -> list[int]:
    """Returns the numbers of the micro-batches in ``offsets`` or ``commits``, in order."""
    try:
        return sorted(int(file.name) for file in log.iterdir() if file.name.isdigit())
    except FileNotFoundError:
        return []
    except OSError as cause:
        raise _unreadable(log, cause) from None


def _last_numbers(log: StoredPath, near: int | None) -> list[int]:
    """Returns the numbers in a log, in order: all, or those from ``near`` on."""
    if isinstance(log, ObjectPath) and near is not None and (found := _numbers_from(log, near)):
        return found
    return batch_numbers(log)


def _numbers_from(log: ObjectPath, first: int) -> list[int]:
    """Returns the numbers from ``first`` to the last one; none if that takes more than this.

    Names are sorted as text: 99 follows 9, 98 and 989. A name's stem stands before all that begin
    with it. There may be gaps: while Spark removes low numbers, and where a move of offsets has
    left a micro-batch without its commit. So it looks for higher numbers, and for longer ones.
    """
    found: list[int] = []
    page: Page | None = None
    while True:
        name = str(first + len(found))
        stem = name[:-1]
        if page is None or not (page.covers(name) or page.behind == stem):
            page = _page_behind(log, stem)
        if name not in page.names:
            break
        found.append(int(name))
    gap = any(int(other) > int(name) for other in page.names if other.isdigit())
    return found if page.covers(name) and not gap and not _has_longer(log, name) else []


def _has_longer(log: ObjectPath, name: str) -> bool:
    """Returns whether the log has a number with more digits than ``name``, if that is near."""
    if len(str(int(name) + _NEAR)) == len(name):
        return False
    page = _page_behind(log, "1" + "0" * (len(name) - 1))
    return any(len(other) > len(name) for other in page.names if other.isdigit())


def _page_behind(log: ObjectPath, name: str) -> Page:
    try:
        return log.page_behind(name)
    except OSError as cause:
        raise _unreadable(log, cause) from None


def _number_before(numbers: list[int]) -> int:
    """Returns the batch before the last one. With asynchronous progress numbers are left out."""
    return numbers[-2] if len(numbers) > 1 else numbers[-1] - 1


def _query(path: StoredPath) -> str:
    file = path / "metadata"
    try:
        return str(json.loads(file.read_text())["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
    except OSError as cause:
        raise _unreadable(file, cause) from None


def read_batch(path: StoredPath, number: int) -> PlannedBatch:
    """Returns ``offsets/<number>`` of the checkpoint in ``path``. Raises CheckpointError."""
    file = path / "offsets" / str(number)
    try:
        return parse_batch(number, _text(file))
    except CheckpointError as cause:
        raise _unusable(file, cause.what) from None


def _initial(path: StoredPath) -> dict[str, Offsets]:
    """Returns the starts of batch 0. Other sources keep files at the same place, with no zero."""
    starts = {}
    for file in _first_files(path / "sources"):
        try:
            text = _text(file)
            if text.startswith("\x00"):
                starts[file.parent.name] = parse_initial(text)
        except CheckpointError as cause:
            raise _unusable(file, cause.what) from None
    return starts


def _first_files(sources: StoredPath) -> list[StoredPath]:
    """Returns the files ``sources/<source>/0`` that exist. Raises CheckpointError."""
    files = [file for source in _children(sources) for file in _children(source)]
    return sorted((file for file in files if file.name == "0"), key=str)


def _children(directory: StoredPath) -> list[StoredPath]:
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as cause:
        raise _unreadable(directory, cause) from None


def _text(file: StoredPath) -> str:
    try:
        return file.read_bytes().decode()
    except OSError as cause:
        raise CheckpointError(f"can't be read: {cause.strerror}") from None
    except UnicodeDecodeError:
        raise CheckpointError("is no text in UTF-8") from None


def _unreadable(path: StoredPath, cause: OSError) -> CheckpointError:
    return CheckpointError(f"{path} can't be read: {cause.strerror}", file=str(path))


def _unusable(file: StoredPath, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint's {file} {why}",
        action="restore the checkpoint's directory from a backup, or use a new one",
        file=str(file),
    )
