"""Where a job's checkpoint is, whether a run has used it, and which queries wrote a Delta table."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kfetch.errors import KfetchError
from kfetch.storage.locations import local_path
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import READABLE, StoredPath, lease_beside, stored_path
from kfetch.storage.versions import VersionedFile
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.util.files import read_json

ANEW = "give the job a new one, and set sink.repeatRows: true if the job has run before"
"""How a job starts without its checkpoint. See ``fresh_start``."""
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.(?:[0-9]{10}\.([0-9]{10})\.)?.*(parquet|json)")
"""Its version, the number of its parts if it has several, and its format."""
_COMMIT = re.compile(r"[0-9]{20}\.json")


def local_directory(job: Job) -> Path | None:
    """Returns the directory of a job's checkpoint; None if it is on another file system."""
    return local_path(job.checkpoint, job.spark)


def checkpoint_path(job: Job) -> StoredPath | None:
    """Returns the path of a job's checkpoint; None if kfetch has no driver for its file system.

    Raises JobsError if the job's settings of Spark ask for something that kfetch can't do.
    """
    try:
        return stored_path(job.checkpoint, job.spark)
    except KfetchError as cause:
        raise JobsError(f"job {job.name}: {cause.what}", action=cause.action) from None


def lease_file(job: Job, *, request_s: float | None = None) -> VersionedFile | None:
    """Returns the lease of a job's checkpoint; None if the job's file says that none is needed.

    It asks no store. ``request_s``: see ``stored_path``. Raises ConfigError if there can be none.
    """
    reason = f"kfetch writes only to {READABLE}"
    try:
        path = stored_path(job.checkpoint, job.spark, request_s=request_s)
        if path is not None and (job.file.singleHost or not _is_mount_point(path)):
            return lease_beside(path)
        if path is not None:
            reason = "the lease lies beside it, and it is a mount point: name a directory in it"
    except KfetchError as cause:
        reason = cause.message
    if job.file.singleHost:
        return None
    raise ConfigError(
        f"job {job.name}: kfetch can hold no lease on the checkpoint {job.checkpoint}, so another "
        f"host might run the job at the same time: {reason}",
        action="If no other host ever runs the job, set singleHost: true in its file",
    )


def _is_mount_point(path: StoredPath) -> bool:
    """Whether the directory beside may be on another disk, which other hosts do not see."""
    return isinstance(path, Path) and os.path.ismount(path.resolve())


def lease_refusal(job: Job) -> str:
    """Returns why a run of the job would be refused for want of a lease; nothing if it would not.

    It asks no store.
    """
    try:
        lease_file(job)
    except ConfigError as error:
        return error.message
    return ""


def movable_path(job: Job) -> StoredPath | None:
    """Returns the path of a checkpoint whose offsets kfetch can move; None if it can't."""
    try:
        return checkpoint_path(job)
    except JobsError:  # a run does not depend on kfetch's own clients
        return None


def note_path(job: Job) -> Path:
    """Returns the path of the note about the checkpoint's runs: beside it, if that is local."""
    local = local_directory(job)
    return Path(f"{local}.origin.json") if local else job.directory / "checkpoint.origin.json"


def stored_note(job: Job) -> ObjectPath | None:
    """Returns the path of the note beside a checkpoint in a store; None for any other checkpoint.

    ``note_path`` is this host's copy, for those who ask no store.
    """
    path = movable_path(job)
    return path.parent / f"{path.name}.origin.json" if isinstance(path, ObjectPath) else None


def has_run(job: Job) -> bool:
    """Returns whether the checkpoint has offsets. Of a remote one, only the note of a run tells."""
    local = local_directory(job)
    return note_path(job).exists() if local is None else has_offsets(local)


def has_offsets(checkpoint: Path) -> bool:
    """Returns whether a micro-batch was planned in a local checkpoint.

    Raises JobsError if the system does not list it: it may have offsets.
    """
    try:
        return any(name.isdigit() for name in os.listdir(checkpoint / "offsets"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as cause:
        raise JobsError(
            f"kfetch can't read {checkpoint / 'offsets'} ({cause.strerror}), so nobody knows where "
            "the job continues",
            action=f"let this user read the checkpoint, or {ANEW}",
        ) from None


def query_id(checkpoint: Path) -> str | None:
    """Returns the id of the query to which a local checkpoint belongs; None without one."""
    found = read_json(checkpoint / "metadata").get("id")
    return None if found is None else str(found)


def has_log(table: Path) -> bool:
    """Returns whether there is a Delta table in a directory."""
    return (table / "_delta_log").is_dir()


def queries_of(table: StoredPath) -> set[str]:
    """Returns the ids of the queries that have written to a table; none without a table.

    Delta notes the id with each micro-batch, so that it can skip a repeated one. The log's last
    checkpoint has all of them. Raises OSError if a store fails, and JobsError for a damaged log.
    """
    log, names = table / "_delta_log", list[str]()
    with _absences(table):
        names = sorted(file.name for file in log.iterdir())
    checkpoints = [found for name in names if (found := _CHECKPOINT.fullmatch(name))]
    parts = Counter((one[1], one[2]) for one in checkpoints)
    whole = [one for one in checkpoints if parts[one[1], one[2]] >= int(one[2] or 1)]
    version = whole[-1][1] if whole else ""
    files = [one[0] for one in whole if one[1] == version]
    files += [name for name in names if _COMMIT.fullmatch(name) and name > version]
    return {query for name in files for query in _queries(log / name)}


def _absences(path: StoredPath) -> suppress:
    """Passes over a table that does not exist, and over commits that Delta has removed."""
    return suppress(OSError if isinstance(path, Path) else FileNotFoundError)


def _queries(file: StoredPath) -> Iterator[str]:
    """Yields the ids in a commit or a checkpoint."""
    with _absences(file):
        if file.name.endswith(".parquet"):
            yield from _queries_of_parquet(file)
            return
        for line in file.read_bytes().splitlines():
            if b'"txn"' in line:
                with suppress(ValueError, KeyError, TypeError):
                    yield str(json.loads(line)["txn"]["appId"])


def _queries_of_parquet(checkpoint: StoredPath) -> Iterator[str]:
    # Imported here: most processes need no checkpoint, and this takes time and memory.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        is_local = isinstance(checkpoint, Path)
        source: Any = checkpoint if is_local else pa.BufferReader(checkpoint.read_bytes())
        file = pq.ParquetFile(source)
        is_noted = "txn" in file.schema_arrow.names
        columns = file.read(columns=["txn.appId"]).flatten().columns if is_noted else []
    except pa.ArrowInvalid:
        raise JobsError(
            f"{checkpoint} is damaged, so nobody knows which queries have written to its table",
            action="bring it back, or remove it if the log has all commits before it",
        ) from None
    for column in columns:
        yield from map(str, column.drop_null().unique().to_pylist())
