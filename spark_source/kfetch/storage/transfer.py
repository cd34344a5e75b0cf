"""Large objects: written in parts, and read in pieces, so that none is in memory as a whole.

Nobody sees an object before its writer calls ``complete``. A killed process leaves the parts that
it has sent. The store keeps them, unseen, until a rule of the bucket's life cycle removes them;
Azure removes them itself after a week. In HDFS, the file has its name from the start, as on a disk.
"""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from kfetch.storage.hdfs import PIECE_BYTES, HdfsStore
from kfetch.storage.objects import ObjectPath

PART_BYTES = 5 << 20
"""The size of a part. S3 takes no smaller ones, except for the last."""
KEPT_BYTES = 2 * PART_BYTES
"""What an upload keeps in memory at most: a part on its way, and the next one."""


class Upload:
    """A new object. pyarrow writes into it as into a file."""

    closed = False
    """pyarrow asks."""

    def __init__(self, path: ObjectPath) -> None:
        """It asks the store for nothing before there is a whole part."""
        self._path = path
        self._size = 0
        with path.errors():
            self._writer = _writer(path)

    @property
    def sink(self) -> Any:
        """What pyarrow writes into."""
        return self

    @property
    def kept_bytes(self) -> int:
        """The bytes in memory, at most."""
        return min(self._size, KEPT_BYTES)

    def tell(self) -> int:
        """Returns how many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Do nothing: a part leaves when it is full."""

    def write(self, data: Any) -> int:
        """Write bytes. It waits while a part is on its way. Raises OSError."""
        view = memoryview(data).cast("B")
        with self._path.errors():
            for begin in range(0, len(view), PIECE_BYTES):  # a longer text would be kept whole
                self._writer.write(view[begin : begin + PIECE_BYTES])
        self._size += len(view)
        return len(view)

    def complete(self) -> None:
        """Let the object appear, whole. Raises OSError. The object's name must be new."""
        try:
            with self._path.errors():
                self._writer.close()
        except OSError:
            if not self._is_there():  # only the answer was lost
                raise

    def _is_there(self) -> bool:
        try:
            return self._path.head()[1] == self._size
        except OSError:
            return False

    def discard(self) -> None:
        """Give the upload up, and let the store forget its parts."""
        cause = OSError("given up")
        with suppress(OSError), self._path.errors():
            self._writer.__exit__(OSError, cause, None)  # the only way to obstore's abort


def opened(path: ObjectPath) -> Any:
    """Returns an object as pyarrow reads a file. A piece is a request. Raises OSError."""
    import obstore

    with path.errors():
        if isinstance(path.store, HdfsStore):
            reader = path.store.open_reader(path.key)
        else:
            reader = obstore.open_reader(path.store, path.key)
    return SimpleNamespace(read=reader.read, seek=reader.seek, tell=reader.tell, closed=False)


def _writer(path: ObjectPath) -> Any:
    import obstore

    if isinstance(path.store, HdfsStore):
        return path.store.open_writer(path.key)
    return obstore.open_writer(path.store, path.key, buffer_size=PART_BYTES, max_concurrency=1)
