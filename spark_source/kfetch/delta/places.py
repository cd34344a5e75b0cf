"""The place of a table: a directory that the driver and all executors see, or a part of a store.

Here is all that differs between the two. On a disk, the log must not outlive the files that it
names. So a file and its commit wait for the disk. A store has what it has confirmed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from kfetch.storage.hdfs import HdfsStore
from kfetch.storage.locations import has_scheme
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import StoredPath, stored_path
from kfetch.storage.transfer import Upload, opened

_S3 = re.compile("^s3[an]:")
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f]")
"""What delta-rs reads as another path than it writes: an escape of a URI, and a backslash."""


def place_of(directory: str, settings: Mapping[str, str]) -> StoredPath:
    """Returns the place of a table for a task, with one client for all of its files.

    ``directory``: an absolute path of this machine, or a URI.
    """
    if not has_scheme(directory):
        return Path(directory)
    place = stored_path(directory, settings, in_parts=True)
    assert place is not None, "the driver has opened it"
    return place


def hadoop_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns those of Spark's settings that ``place_of`` may need."""
    return {name: text for name, text in settings.items() if name.startswith("spark.hadoop.")}


def new_file(place: StoredPath, path: str) -> NewFile:
    """Begin a file. ``path``: below the table's place. Raises OSError."""
    if isinstance(place, ObjectPath):
        return Upload(place / path)
    return _FileOnDisk(place, path)


class _FileOnDisk:
    """A file that no reader sees before the log names it, as ``Upload`` is in a store."""

    kept_bytes = 0

    def __init__(self, directory: Path, path: str) -> None:
        self._directory, self._file = directory, directory / path
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self.sink = pa.OSFile(str(self._file), "wb")

    def complete(self) -> None:
        self.sink.close()
        sync(self._file, self._directory)

    def discard(self) -> None:
        with suppress(OSError):
            self.sink.close()
        self._file.unlink(missing_ok=True)


NewFile = Upload | _FileOnDisk


def sync(file: StoredPath, place: StoredPath) -> None:
    """Wait until the disk has a file and the names on the way to it, from the table's directory on.

    After a power cut the disk has what was synced before it.
    """
    if isinstance(file, ObjectPath) or isinstance(place, ObjectPath):
        return
    directories = [parent for parent in file.parents if parent.is_relative_to(place)]
    for path in (file, *directories):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def identity(file: StoredPath) -> object:
    """Returns what tells a file from another one of its name; None without the file."""
    try:
        if isinstance(file, ObjectPath):
            return file.head()
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def readable(file: StoredPath) -> Any:
    """Returns a file as pyarrow reads it."""
    return opened(file) if isinstance(file, ObjectPath) else file


def address(place: StoredPath) -> dict[str, Any]:
    """Returns delta-rs's arguments for a table on a disk or in a store: URI and client's options.

    The store's client is of the same kind (``object_store``, hdfs-native). So it has the same
    options.
    """
    if not isinstance(place, ObjectPath):
        return {"table_uri": str(place)}
    root = place.store.uri if isinstance(place.store, HdfsStore) else _S3.sub("s3:", place.uri)
    # Of S3 alone: a commit fails if its number is taken. Elsewhere it does so anyway.
    options = {**place.options, "conditional_put": "etag"}
    return {"table_uri": f"{root}/{_quoted(place.key)}", "storage_options": options}


def is_misread(place: StoredPath) -> bool:
    """Returns whether delta-rs takes the place of a table for another one.

    It decodes paths as URIs. In HDFS it does not decode what it has encoded.
    """
    if isinstance(place, ObjectPath) and isinstance(place.store, HdfsStore):
        return _quoted(place.key) != place.key
    return bool(_MISREAD.search(str(place)))


def _quoted(key: str) -> str:
    return quote(key, safe="/:=@,+")


@contextmanager
def plain_errors(place: StoredPath) -> Iterator[None]:
    """Shorten delta-rs's errors of a store. Theirs may show parts of a request."""
    if isinstance(place, ObjectPath):
        with place.errors():
            yield
    else:
        yield
