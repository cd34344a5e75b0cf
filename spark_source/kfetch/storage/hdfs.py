"""HDFS, with those methods of obstore's stores that ``objects`` calls. Its client is hdfs-native.

A file is written under a hidden name, and renamed: so it appears whole. The namenode refuses a new
name that is taken. It compares no tags: the lease is a directory of versions, as on a disk. A file
of ``open_writer`` has its name from the start, as on a disk.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

SCHEMES = ("hdfs",)
"""The scheme of URIs in HDFS."""

_HADOOP = "spark.hadoop."
_PORT = 8020
"""A namenode's port, if the URI has none."""
_JAVA = re.compile(r"\w+Exception")
"""A namenode's error."""
PIECE_BYTES = 1 << 20
"""How much of a file is written or copied at once. The client itself keeps 6 MiB on their way."""
_HANGING_MAX = 64
_hanging: list[threading.Thread] = []
"""Requests of this process that were given up and still wait for a namenode."""
_RETRY_S = 10.0
"""How long other requests then fail at once. After it one goes through: it may be answered."""
_retry_at: float | None = None
"""When that is, in monotonic seconds; None if the last request was answered."""
_T = TypeVar("_T")


def hdfs_config(authority: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of ``HdfsStore``. ``authority``: a namenode, or a name of several.

    ``settings``: Spark's, by their full names. Those behind ``spark.hadoop.`` win over the files of
    ``HADOOP_CONF_DIR``, which the client reads as Spark does.
    """
    config = {
        name.removeprefix(_HADOOP): text
        for name, text in settings.items()
        if name.startswith(_HADOOP)
    }
    return {"authority": authority, "config": config}


@dataclass(frozen=True, slots=True)
class HdfsFile:
    """A file that is there."""

    meta: Mapping[str, Any]
    bytes: Callable[[], bytes]
    """Returns the content."""


class HdfsStore:
    """A file system. A request that takes longer than ``wait_s`` is given up."""

    def __init__(self, authority: str, config: dict[str, str], wait_s: float) -> None:
        from hdfs_native import Client

        self._wait_s = wait_s
        self.uri = f"hdfs://{authority}"
        """That of the root, with a port."""
        try:
            self._client = Client(self.uri, config)
        except RuntimeError:  # no name of several namenodes
            self.uri += "" if ":" in authority else f":{_PORT}"
            self._client = Client(self.uri, config)

    def get(self, key: str) -> HdfsFile:
        """Returns a file. Raises FileNotFoundError."""
        return HdfsFile(
            self.head(key), lambda: self._asked(lambda: self._client.read(f"/{key}").read())
        )

    def head(self, key: str) -> Mapping[str, Any]:
        """Returns size and time of a file. Raises FileNotFoundError."""
        return self._asked(lambda: self._meta(key))

    def put(self, key: str, content: bytes, *, mode: str = "overwrite") -> Mapping[str, Any]:
        """Write a file. In the mode ``create``, raises AlreadyExistsError if it is there."""
        self._asked(lambda: self._put(key, content, overwrite=mode != "create"))
        return {"e_tag": key}

    def copy(self, source: str, target: str) -> None:
        """Copy a file through memory, in pieces."""
        reader, hidden = self.open_reader(source), _hidden(target)
        with self.open_writer(hidden) as writer:
            while piece := self._asked(lambda: reader.read(PIECE_BYTES)):
                writer.write(piece)
        self._asked(lambda: self._renamed(hidden, target, overwrite=True))

    def open_reader(self, key: str) -> Any:
        """Returns a file, which can be read as one of Python. Raises FileNotFoundError."""
        return self._asked(lambda: self._client.read(f"/{key}"))

    def open_writer(self, key: str) -> HdfsWriter:
        """Create a file, and the directories on the way to it."""
        from hdfs_native import WriteOptions

        options = WriteOptions(create_parent=True)
        writer = self._asked(lambda: self._client.create(f"/{key}", options))
        return HdfsWriter(writer, self._asked, lambda: self.delete(key))

    def delete_tree(self, key: str) -> None:
        """Remove a directory with all that it has. Nothing tells whether it was there."""
        self._asked(lambda: self._client.delete(f"/{key}", True))

    def delete(self, keys: str | Iterable[str]) -> None:
        """Remove files. Nothing tells whether they were there."""
        for key in [keys] if isinstance(keys, str) else list(keys):
            self._asked(lambda key=key: self._client.delete(f"/{key}"))  # type: ignore[misc]

    def list(self, prefix: str, offset: str = "", chunk_size: int = 0) -> Iterator[Sequence[Any]]:
        """Yields one list of all files below a directory that follow ``offset``, sorted."""
        found = self._asked(lambda: self._below(prefix, recursive=True))
        yield sorted(
            ({"path": path} for path, is_directory in found if path > offset and not is_directory),
            key=lambda one: one["path"],
        )

    def list_with_delimiter(self, prefix: str) -> Mapping[str, Any]:
        """Returns the files and the directories right below a directory."""
        found = self._asked(lambda: self._below(prefix, recursive=False))
        return {
            "common_prefixes": [path for path, is_directory in found if is_directory],
            "objects": [{"path": path} for path, is_directory in found if not is_directory],
        }

    def _meta(self, key: str) -> dict[str, Any]:
        status = self._client.get_file_info(f"/{key}")
        written = datetime.fromtimestamp(status.modification_time / 1000, UTC)
        changes = f"{status.modification_time}-{status.length}"
        return {"size": status.length, "last_modified": written, "e_tag": changes}

    def _put(self, key: str, content: bytes, *, overwrite: bool) -> None:
        from hdfs_native import WriteOptions

        hidden = _hidden(key)
        with self._client.create(f"/{hidden}", WriteOptions(create_parent=True)) as writer:
            writer.write(content)
        self._renamed(hidden, key, overwrite=overwrite)

    def _renamed(self, hidden: str, key: str, *, overwrite: bool) -> None:
        try:
            self._client.rename(f"/{hidden}", f"/{key}", overwrite)
        except BaseException:
            self._client.delete(f"/{hidden}")
            raise

    def _below(self, prefix: str, *, recursive: bool) -> Sequence[tuple[str, bool]]:
        try:
            listed = list(self._client.list_status(f"/{prefix}".rstrip("/") or "/", recursive))
        except FileNotFoundError:
            return []
        found = [(status.path.strip("/"), status.isdir) for status in listed]
        return [one for one in found if one[0].startswith(prefix.lstrip("/"))]  # no file itself

    def _asked(self, request: Callable[[], _T]) -> _T:
        """Returns the answer of a request. The client itself waits forever for a namenode."""
        global _retry_at
        answers: list[_T | BaseException] = []

        def ask() -> None:
            try:
                answers.append(request())
            except BaseException as cause:
                answers.append(cause)

        _hanging[:] = [one for one in _hanging if one.is_alive()]
        if len(_hanging) >= _HANGING_MAX and _retry_at is not None:
            if time.monotonic() < _retry_at:
                raise _as_obstore(TimeoutError("no answer"))
            _retry_at = time.monotonic() + _RETRY_S
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self._wait_s)
        if thread.is_alive():
            _hanging.append(thread)
            _retry_at = time.monotonic() + _RETRY_S
        else:
            _retry_at = None
        answer = answers[0] if answers else TimeoutError("no answer")
        if isinstance(answer, BaseException):
            raise _as_obstore(answer)
        return answer


class HdfsWriter:
    """A new file of HDFS, with the methods of obstore's writer. It keeps a piece in memory."""

    def __init__(
        self, writer: Any, asked: Callable[[Callable[[], Any]], Any], delete: Callable[[], None]
    ) -> None:
        self._writer, self._asked, self._delete = writer, asked, delete
        self._piece = bytearray()

    def write(self, data: Any) -> None:
        """Add bytes. They leave when there is a whole piece."""
        self._piece += data
        if len(self._piece) >= PIECE_BYTES:
            self._send()

    def close(self) -> None:
        """Write the rest, and complete the file."""
        self._send()
        self._asked(self._writer.close)

    def __enter__(self) -> HdfsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Complete the file; remove it after an error."""
        if kind is None:
            self.close()
        else:
            self._delete()

    def _send(self) -> None:
        piece, self._piece = self._piece, bytearray()
        self._asked(lambda: self._writer.write(piece))


def _hidden(key: str) -> str:
    parent, slash, name = key.rpartition("/")
    return f"{parent}{slash}.{name}.{uuid.uuid4()}.tmp"  # as Spark's own


def _as_obstore(cause: BaseException) -> BaseException:
    """Returns the error that obstore would raise."""
    from obstore import exceptions

    if isinstance(cause, FileNotFoundError):
        return cause
    found = _JAVA.search(str(cause))
    text = f"<Code>{found[0]}</Code>" if found else ""  # as in an answer of S3
    if isinstance(cause, FileExistsError):
        return exceptions.AlreadyExistsError(text)
    if isinstance(cause, PermissionError) or "AccessControlException" in text:
        return exceptions.PermissionDeniedError(text)
    return exceptions.GenericError(text)
