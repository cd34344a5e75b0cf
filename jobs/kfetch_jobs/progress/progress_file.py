"""The file ``progress.jsonl`` in a job's directory: one line of JSON per micro-batch.

The file has a limit: kfetch keeps some ten thousand micro-batches and drops older ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from kfetch_jobs.progress.batch import Batch, HistoryEntry, RowsDeleted, batches_among, line_of

_NAME = "progress.jsonl"
_BYTES_MAX = 4 << 20
"""Limit of the file, and of the rotated one before it."""

_TAIL_BYTES = 4096
"""Room for several lines: a line has less than 500 bytes."""


def rotated_path(path: Path) -> Path:
    """Returns the path to which a full progress file moves."""
    return path.with_suffix(f".1{path.suffix}")


def append_replayed(directory: Path, end: int, move: int) -> None:
    """Append that a replay has deleted the rows of the micro-batches that ended beyond ``end``.

    ``end`` is the sum of the next offsets after the replay, and ``move`` its own micro-batch.
    """
    first = None
    for batch in reversed(read_batches(directory)):
        if batch.end <= end:
            break
        first = batch.batch
    if first is not None:
        append_entry(directory, RowsDeleted(undone_from=first, move=move))


def append_entry(directory: Path, entry: HistoryEntry) -> None:
    """Append a line with a single write, and rotate a full file.

    A concurrent reader sees whole lines, or an unfinished last one.
    """
    path = directory / _NAME
    with path.open("a") as file:
        # A killed writer may have left an unfinished line.
        start = "" if _ends_a_line(path) else "\n"
        file.write(start + line_of(entry))
        full = file.tell() > _BYTES_MAX
    if full:
        os.replace(path, rotated_path(path))


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")


def read_batches(directory: Path) -> list[Batch]:
    """Returns all batches of the file and of the rotated one, without cut or damaged lines."""
    path = directory / _NAME
    return [*batches_among(_lines(rotated_path(path))), *batches_among(_lines(path))]


def last_batch(directory: Path) -> Batch | None:
    """Returns the last micro-batch of the file. Reads only the file's end."""
    path = directory / _NAME
    for file in (path, rotated_path(path)):
        for batch in batches_among(reversed(_tail(file).splitlines(keepends=True))):
            return batch
    return None


def committed_since(directory: Path, started_s: float) -> tuple[int, int]:
    """Returns the number of micro-batches that a run committed, and of their rows.

    ``started_s`` is when the run started. The run may have been killed: its last line has both.
    If the disk fails, both are 0: the end of a run counts for more.
    """
    try:
        last = last_batch(directory)
    except OSError:
        return 0, 0
    if last is None or last.finished < started_s:
        return 0, 0
    return last.run_batches, last.run_rows


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines(keepends=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
