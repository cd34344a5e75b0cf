"""Where a table or a checkpoint is, by the text of its path or URI, as Hadoop reads it.

s3a://bucket/lake, dbfs:/lake   another file system; kfetch reads those of ``storage.open``
file:/data/ck, file:///data/ck  a directory of this machine; ``%20`` stays as it is
/data/ck, data/ck               a directory of Spark's default file system; relative to the project

A colon before the first slash ends a scheme. So ``./a:b`` is a relative path, and ``a:b`` is none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_URI = re.compile(r"(?P<scheme>[^/:]*):(?P<path>.*)", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
DEFAULTS = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
"""Spark's settings for the file system of paths without a scheme: Hadoop's name and its old one."""
NO_KEYS = (
    "a location must have no access keys: put them into the settings of Spark, such as "
    "spark.hadoop.fs.s3a.access.key"
)
"""The mistake in a text that ``has_keys``."""
_KEYS = re.compile(r"(?i)s3[an]?:(//)?[^/]*[:@]|[a-z0-9+.-]+://[^/@]*:[^/@]*@")
"""No bucket has a port or a user."""

_OTHER_NAMES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}
"""Schemes of the same file systems, by their rarer names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLocation:
    """A place on another file system."""

    scheme: str
    """In lower case."""
    authority: str
    """A bucket or a host; may be empty."""
    path: str
    """Begins with a slash. Percent signs stay as they are."""

    @property
    def root(self) -> str:
        """The URI of the file system's root, without a slash at its end."""
        return f"{self.scheme}://{self.authority}"


def remote_location(text: str, spark: Mapping[str, str]) -> RemoteLocation:
    """Returns the parts of a location that ``local_path`` says is not on this machine.

    A path without a scheme belongs to Spark's default file system, which ``spark`` names. So does a
    URI without an authority, if it has the scheme of the default one.
    """
    default = _remote(_default(spark))
    if not has_scheme(text):
        return replace(default, path=text)
    remote = _remote(text)
    if not remote.authority and remote.scheme == default.scheme:
        return replace(default, path=remote.path)
    return remote


def _remote(text: str) -> RemoteLocation:
    scheme, _, rest = text.partition(":")
    authority = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    path = rest[2 + len(authority) :] if rest.startswith("//") else rest
    return RemoteLocation(scheme=scheme.lower(), authority=authority, path=path or "/")


def has_scheme(text: str) -> bool:
    """Returns whether Hadoop takes the text for a URI."""
    return _URI.match(text) is not None


def has_keys(text: str) -> bool:
    """Returns whether keys or a password are in front of a host or a bucket.

    Errors and logs must not show such a text.
    """
    return _KEYS.match(text) is not None


def location_mistake(text: str) -> str:
    """Returns what is wrong with the text of a location; nothing if Hadoop can read it."""
    uri = _URI.match(text)
    if uri is None:
        return ""
    path = uri["path"]
    if not _SCHEME.fullmatch(uri["scheme"]) or not path.startswith("/"):
        return (
            "a colon before the first slash ends a scheme: write ./ in front of a relative path, "
            "or scheme:/path"
        )
    if uri["scheme"] == "file" and path.startswith("//") and not path.startswith("///"):
        return "a file: URI names no host: write file:/path"
    return ""


def absolute_location(text: str, directory: Path) -> str:
    """Returns a URI as it is, and a path from ``directory`` on."""
    return text if has_scheme(text) else str((directory / text).resolve())


def place(text: str, spark: Mapping[str, str]) -> str:
    """Returns one text for a directory, however its location is written, to compare locations.

    A path and a ``file:`` URI may be one directory, and so may a directory and a link to it.
    Some schemes are other names of one file system.
    """
    if (local := local_path(text, spark)) is not None:
        return f"file:{local.resolve()}"
    remote = remote_location(text, spark)
    scheme = _OTHER_NAMES.get(remote.scheme, remote.scheme)
    return f"{scheme}://{remote.authority}{posixpath.normpath('/' + remote.path.strip('/'))}"


def local_path(text: str, spark: Mapping[str, str]) -> Path | None:
    """Returns the directory of this machine; None if the location is on another file system.

    ``spark`` has the job's Spark settings. They may name another default file system.
    """
    uri = _URI.match(text)
    if uri is not None:
        return Path("/" + uri["path"].lstrip("/")) if uri["scheme"] == "file" else None
    return Path(text) if _default(spark).startswith("file:") else None


def _default(spark: Mapping[str, str]) -> str:
    return next((spark[name] for name in DEFAULTS if name in spark), "file:///")
