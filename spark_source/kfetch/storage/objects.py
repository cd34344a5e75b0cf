"""Paths in an object store, with those methods of ``pathlib.Path`` that kfetch needs.

An object's name is a text with slashes, and there are no directories. A "directory" is what names
have in common. Errors are those of ``pathlib``: FileNotFoundError, PermissionError, OSError with
the reason as ``strerror``. They show no part of a request, because that may have keys.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

_STATUS = re.compile(r"non-2xx status code[^<]{0,60}?(\d{3} [A-Z][A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_OTHER_REGION = ("redirect without LOCATION", "AuthorizationHeaderMalformed")
"""Parts of errors after AWS has answered that the bucket is in another region."""
_ENDED_EARLY = "response body error"
"""A part of the client's error if the connection ends within an answer."""
_LISTED_MAX = 1000
"""How many names a request lists."""
_TOGETHER = 16
"""How many objects are copied at once."""
_ERRORS = {"429": errno.EBUSY, "501": errno.ENOTSUP}
"""Numbers of errors, by the store's status. Any other one is EIO."""
_NO_STORE = ("NoSuchBucket", "ContainerNotFound")
"""What stores say if there is no such bucket or container."""
READ_MAX = 64 << 20
"""The largest object that is read, in bytes. A file of a checkpoint has a few kilobytes."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of names, which is sorted as text: 99 follows 9, 98 and 989."""

    behind: str
    """The text that it follows."""
    names: Sequence[str]
    is_last: bool
    """Whether no name follows."""

    def covers(self, name: str) -> bool:
        """Returns whether the whole list has the name only if this part has it."""
        return self.behind < name and (self.is_last or name <= self.names[-1])


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """An object, or the common start of names of objects."""

    uri: str
    """The URI of the store's root, such as ``s3a://bucket``, as the user wrote it."""
    key: str
    """The name within the store, without a slash at its ends; empty for the root."""
    store: Any = field(repr=False, compare=False)
    """obstore's store."""
    tag: str = field(default="e_tag", repr=False, compare=False)
    """Which mark of an object a conditional write compares: ``e_tag``, or ``version``.

    A version is GCS's generation. Its ETags are no condition of a write.
    """
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The store's settings and waits by the names of ``object_store``, which delta-rs has, too.

    For HDFS, they are Hadoop's. They may have keys.
    """

    def __str__(self) -> str:
        return f"{self.uri}/{self.key}"

    def __truediv__(self, name: str) -> ObjectPath:
        return self._at(f"{self.key}/{name}".strip("/"))

    def _at(self, key: str) -> ObjectPath:
        return replace(self, key=key)

    @property
    def name(self) -> str:
        """The part behind the last slash."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The path without its last part."""
        return self._at(self.key.rpartition("/")[0])

    def read_bytes(self) -> bytes:
        """Returns the object's bytes. One request."""
        return self.read_tagged()[1]

    def read_tagged(self) -> tuple[str, bytes, float]:
        """Returns the object's tag, its bytes, and when it was written. One request.

        The tag changes with each write. The time is in seconds since 1970, by the store's clock.
        """
        with self.errors():
            result = self.store.get(self.key)
            if result.meta["size"] > READ_MAX:
                raise OSError(errno.EFBIG, f"it has over {READ_MAX >> 20} MiB", str(self))
            written_s = float(result.meta["last_modified"].timestamp())
            return str(result.meta[self.tag]), bytes(result.bytes()), written_s

    def write_if(self, content: bytes, tag: str | None) -> str | None:
        """Write the object if its tag is ``tag``, or for None if there is no such object.

        Returns the new tag; None if the store refuses. A refused request may have succeeded
        before, if its answer was lost and the client has repeated it. One request.
        """
        from obstore import exceptions

        mode = "create" if tag is None else {self.tag: tag}
        with self.errors():
            try:
                return str(self.store.put(self.key, content, mode=mode)[self.tag])
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return None
            except FileNotFoundError:
                if tag is not None:
                    return None
        raise FileNotFoundError(errno.ENOENT, f"{self.uri} does not exist", str(self))

    def read_text(self) -> str:
        """Returns the object's text in UTF-8. One request."""
        return self.read_bytes().decode()

    def write_text(self, text: str) -> None:
        """Write the object, whatever was there. One request."""
        with self.errors():
            self.store.put(self.key, text.encode())

    def files(self) -> Iterator[ObjectPath]:
        """Yields all objects below this name. A request lists 1,000."""
        listed = self._asked(lambda: [*self.store.list(f"{self.key}/")])
        for key in [one["path"] for part in listed for one in part]:
            yield self._at(key)

    def copy_tree(self, target: ObjectPath) -> None:
        """Copy all objects below this name to another one. The store copies, by a request each."""

        def copy(file: ObjectPath) -> None:
            there = target / file.key.removeprefix(f"{self.key}/")
            file._asked(lambda: self.store.copy(file.key, there.key))

        with ThreadPoolExecutor(_TOGETHER) as pool:
            list(pool.map(copy, self.files()))  # raises the first error

    def remove_tree(self) -> None:
        """Remove all objects below this name. A request removes many."""
        if hasattr(self.store, "delete_tree"):  # HDFS has directories, which would stay
            self._asked(lambda: self.store.delete_tree(self.key))
            return
        try:
            self._remove(file.key for file in self.files())
        except FileNotFoundError:
            # A repeated request finds what the first one removed. Azure's client stops there.
            self._remove(file.key for file in self.files())

    def _remove(self, keys: Iterable[str]) -> None:
        listed = list(keys)
        self._asked(lambda: self.store.delete(listed))

    def head(self) -> tuple[str, int]:
        """Returns the object's ETag, which changes with each write, and its bytes. One request."""
        with self.errors():
            found = self.store.head(self.key)
            return str(found["e_tag"]), int(found["size"])

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object. One request.

        S3 does not tell whether it was there. Other stores raise FileNotFoundError.
        """
        try:
            self._asked(lambda: self.store.delete(self.key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yields the objects and common starts right below this name. A request lists 1,000.

        S3A marks an empty directory by an object with its own name. Raises FileNotFoundError if
        there is nothing: Azure has empty directories that nobody sees from within.
        """
        listed = self._asked(lambda: self.store.list_with_delimiter(f"{self.key}/"))
        keys = [*listed["common_prefixes"], *(one["path"] for one in listed["objects"])]
        if not keys:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(self))
        for key in sorted({key.strip("/") for key in keys} - {self.key}):
            yield self._at(key)

    def page_behind(self, name: str) -> Page:
        """Returns the first 1,000 names of objects below this one that follow ``name``.

        One request: a store may begin a list anywhere. If a store does not, as Azurite, it takes
        requests for all names.
        """
        below = f"{self.key}/"

        def ask() -> list[str]:
            listed = self.store.list(below, offset=f"{below}{name}", chunk_size=_LISTED_MAX)
            names = (one["path"].removeprefix(below) for part in listed for one in part)
            return list(islice((one for one in names if one > name), _LISTED_MAX))

        names = self._asked(ask)
        return Page(name, names, len(names) < _LISTED_MAX)

    def _asked(self, request: Callable[[], Any]) -> Any:
        """Returns the answer of a request that may be repeated.

        The client repeats a request that fails. An answer that ends too early is a failure for it
        only if it has the content of an object.
        """
        from obstore import exceptions

        with self.errors():
            try:
                return request()
            except exceptions.GenericError as cause:
                if _ENDED_EARLY not in str(cause):
                    raise
            return request()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn obstore's errors into those of ``pathlib``, which name the object.

        So do those of delta-rs, which has the same client.
        """
        from obstore import exceptions

        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(self)) from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as cause:
            reason = f"the store refuses it ({_reason(cause)}): correct the keys or their rights"
            raise PermissionError(errno.EACCES, reason, str(self)) from None
        except ValueError:  # of a name with a line's end, say
            raise OSError(errno.EINVAL, "no object has such a name", str(self)) from None
        except (exceptions.BaseError, OSError) as cause:
            if isinstance(cause, OSError) and cause.filename is not None:
                raise  # it is one of these already
            reason = f"the store fails ({_reason(cause)})"
            if any(code in reason for code in _NO_STORE):
                reason = f"{self.uri} does not exist"
            if any(sign in str(cause) for sign in _OTHER_REGION):
                reason = (
                    f"{self.uri} may be in another region: set spark.hadoop.fs.s3a.endpoint.region"
                )
            status = _STATUS.search(str(cause))
            number = _ERRORS.get(status[1][:3] if status else "", errno.EIO)
            raise OSError(number, reason, str(self)) from None


def _reason(cause: Exception) -> str:
    """Returns the store's status and code. The rest of its answer may have the request's keys."""
    text = str(cause)
    found = [match[1] for pattern in (_STATUS, _CODE) if (match := pattern.search(text))]
    return ", ".join(found) or "no answer"
