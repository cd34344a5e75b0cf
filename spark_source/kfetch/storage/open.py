"""From the text of a location to a path that can be read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kfetch.errors import OptionError
from kfetch.storage import azure, gcs, hdfs, s3
from kfetch.storage.locations import local_path, remote_location
from kfetch.storage.objects import ObjectPath
from kfetch.storage.versions import VersionedDirectory, VersionedFile, VersionedObject

_TIMEOUT_S = 10
"""How long one request may take."""
_RETRIES_S = 30
"""How long a request is repeated after a failure of the store or of the network."""
_FIRST_PAUSE_S = 0.1
"""How long the client waits before it repeats a request. Later pauses may be longer."""

READABLE = "file:, s3a:, abfss:, gs: and hdfs:"
"""What ``stored_path`` has a driver for, in words for errors."""
TABLES = "file: and s3a:"
"""Where tables are written without Spark. Nobody has tried it elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoreKind:
    """One of the kinds of stores that kfetch reads and writes."""

    store: str
    """The name of the class: obstore's, or ``HdfsStore``."""
    extra: str
    """The extra of kfetch that installs the client."""
    arguments: Callable[[str, str, Mapping[str, str]], dict[str, Any]]
    """Returns those of the class for a scheme, an authority and Spark's settings."""
    keys: str
    """What to correct if obstore finds no complete keys."""
    tag: str = "e_tag"
    """See ``ObjectPath.tag``."""


_S3 = _StoreKind(
    store="S3Store",
    extra="s3",
    arguments=lambda _, bucket, settings: s3.s3_config(bucket, settings),
    keys="the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
)
_AZURE = _StoreKind(
    store="AzureStore",
    extra="azure",
    arguments=azure.azure_config,
    keys="the account's keys among Spark's settings",
)
_GCS = _StoreKind(
    store="GCSStore",
    extra="gcs",
    arguments=lambda _, bucket, settings: gcs.gcs_config(bucket, settings),
    keys="the file that Spark's setting or GOOGLE_APPLICATION_CREDENTIALS names",
    tag="version",
)
_HDFS = _StoreKind(
    store="HdfsStore",
    extra="hdfs",
    arguments=lambda _, authority, settings: hdfs.hdfs_config(authority, settings),
    keys="the name of the namenode, or HADOOP_CONF_DIR",
)
_KINDS = {
    **dict.fromkeys(s3.SCHEMES, _S3),
    **dict.fromkeys(azure.SCHEMES, _AZURE),
    **dict.fromkeys(gcs.SCHEMES, _GCS),
    **dict.fromkeys(hdfs.SCHEMES, _HDFS),
}
"""By the scheme of a URI."""

StoredPath = Path | ObjectPath
"""A path on this machine, or in an object store."""


def stored_path(
    text: str, settings: Mapping[str, str], *, request_s: float | None = None
) -> StoredPath | None:
    """Returns the path of a location; None if kfetch has no driver for its file system.

    ``settings``: Spark's, by their full names. It asks no store. With ``request_s``, a request
    takes no longer, and is not repeated. Raises OptionError if a setting can't be followed, or if a
    driver is not installed.
    """
    if (local := local_path(text, settings)) is not None:
        return local
    remote = remote_location(text, settings)
    kind = _KINDS.get(remote.scheme)
    if kind is None or not remote.authority:
        return None
    arguments = kind.arguments(remote.scheme, remote.authority, settings)
    store = _opened(kind, arguments, text, request_s)
    key = posixpath.normpath(f"/{remote.path}").strip("/")  # Hadoop resolves a//b and a/../b, too
    return ObjectPath(remote.root, key, store, kind.tag)


def table_path(text: str, settings: Mapping[str, str]) -> StoredPath | None:
    """Returns the path of a table that is written without Spark; None if it is not in ``TABLES``.

    See ``stored_path``.
    """
    path = stored_path(text, settings)
    if isinstance(path, Path) or remote_location(text, settings).scheme in s3.SCHEMES:
        return path
    return None


def lease_beside(checkpoint: StoredPath) -> VersionedFile:
    """Returns the lease of a checkpoint. It lies beside the directory itself, not beside links."""
    if isinstance(checkpoint, Path):
        checkpoint = checkpoint.resolve()
    return versioned(checkpoint.parent / f"{checkpoint.name}.lease")


def versioned(path: StoredPath) -> VersionedFile:
    """Returns the file of this path of which only one writer makes the next version."""
    if isinstance(path, Path) or isinstance(path.store, hdfs.HdfsStore):
        return VersionedDirectory(path)
    return VersionedObject(path)


def _opened(
    kind: _StoreKind, arguments: Mapping[str, Any], text: str, request_s: float | None
) -> object:
    try:
        from obstore import store
        from obstore.exceptions import BaseError

        if kind is _HDFS:
            return hdfs.HdfsStore(**arguments, wait_s=request_s or _TIMEOUT_S)
    except RuntimeError:
        raise OptionError(
            f"kfetch knows no namenode of {text}", action=f"correct {kind.keys}"
        ) from None
    except ModuleNotFoundError as missing:
        raise OptionError(
            f"kfetch can't read {text} without the package {missing.name}",
            action=f"install it with pip install 'kfetch[{kind.extra}]'",
        ) from None
    wait = f"{round((request_s or _TIMEOUT_S) * 1000)}ms"
    waits = {"timeout": wait, "connect_timeout": wait}
    retries = {
        "max_retries": 0 if request_s else 5,
        "retry_timeout": timedelta(seconds=_RETRIES_S),
        "backoff": {"init_backoff": timedelta(seconds=_FIRST_PAUSE_S)},
    }
    options = {**waits, **arguments.get("client_options", {})}
    try:
        return getattr(store, kind.store)(
            **{**arguments, "client_options": options}, retry_config=retries
        )
    except BaseError:  # its text may have keys
        raise OptionError(
            f"kfetch has no complete keys for {text}", action=f"correct {kind.keys}"
        ) from None
