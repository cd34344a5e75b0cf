"""From the text of a location to a path that can be read."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from kfetch.errors import OptionError
from kfetch.storage import azure, gcs, hdfs, s3
from kfetch.storage.locations import NO_KEYS, has_keys, local_path, remote_location
from kfetch.storage.objects import ObjectPath
from kfetch.storage.versions import VersionedDirectory, VersionedFile, VersionedObject

_CONNECT_S = 10
"""How long a connection may take."""
_FIRST_PAUSE_S = 0.1
"""How long the client waits before it repeats a request. Later pauses may be longer."""
_CLIENT_S = 600
"""Seconds for which paths of a bucket share a client. The next one reads files with keys anew."""
_CLIENTS_MAX = 8
_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105 - the name of a variable, which obstore and delta-rs read

READABLE = "file:, s3a:, abfss:, gs: and hdfs:"
"""What ``stored_path`` has a driver for, in words for errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Patience:
    """How long the client of a store waits. HDFS repeats no request."""

    request_s: float = 10
    """How long one request may take."""
    retries: int = 5
    """How often a request is repeated after a failure of the store or of the network."""
    retries_s: float = 30
    """For how long."""


_FOR_PARTS = _Patience(request_s=60, retries=10, retries_s=120)
"""For large files, in parts of 5 MiB. A micro-batch that fails costs more than a wait."""


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
    text: str,
    settings: Mapping[str, str],
    *,
    request_s: float | None = None,
    in_parts: bool = False,
) -> StoredPath | None:
    """Returns the path of a location; None if kfetch has no driver for its file system.

    ``settings``: Spark's, by their full names. It asks no store. With ``request_s``, a request
    takes no longer, and is not repeated. ``in_parts``: the client is for large files, and waits
    longer. Raises OptionError if the location has keys, if a setting can't be followed, or if a
    driver is not installed.
    """
    if (local := local_path(text, settings)) is not None:
        return local
    remote = remote_location(text, settings)
    if has_keys(text) or has_keys(remote.root):
        raise OptionError(NO_KEYS)
    kind = _KINDS.get(remote.scheme)
    if kind is None or not (remote.authority or kind is _HDFS):
        return None
    arguments = kind.arguments(remote.scheme, remote.authority, settings)
    patience = _FOR_PARTS if in_parts else _Patience()
    if request_s:
        patience = _Patience(request_s=request_s, retries=0)
    store, options = _opened(kind, arguments, text, patience)
    key = posixpath.normpath(f"/{remote.path}").strip("/")  # Hadoop resolves a//b and a/../b, too
    return ObjectPath(remote.root, key, store, kind.tag, options)


def _has_foreign_token(arguments: Mapping[str, Any]) -> bool:
    """Whether the client would send a key of the settings with another key's token."""
    key = arguments.get("access_key_id", "")
    own = not key or key == os.environ.get("AWS_ACCESS_KEY_ID") or "session_token" in arguments
    return not own and bool(os.environ.get(_TOKEN))


def lease_beside(checkpoint: StoredPath) -> VersionedFile:
    """Returns the lease of a checkpoint. It lies beside the directory itself, not beside links."""
    if isinstance(checkpoint, Path):
        checkpoint = checkpoint.resolve()
    return versioned(checkpoint.parent / f"{checkpoint.name}.lease")


def versioned(path: StoredPath, *, private: bool = False) -> VersionedFile:
    """Returns the file of this path of which only one writer makes the next version.

    ``private``: on a disk, only its user may read it.
    """
    if isinstance(path, Path) or isinstance(path.store, hdfs.HdfsStore):
        return VersionedDirectory(path, 0o600) if private else VersionedDirectory(path)
    return VersionedObject(path)


def _opened(
    kind: _StoreKind, arguments: Mapping[str, Any], text: str, patience: _Patience
) -> tuple[object, Mapping[str, str]]:
    """Returns a store's client, and its options for another client. See ``ObjectPath.options``."""
    try:
        from obstore.exceptions import BaseError

        if kind is _HDFS:  # a request that hangs holds its connection, so each path has its own
            return hdfs.HdfsStore(**arguments, wait_s=patience.request_s), arguments["config"]
    except RuntimeError:
        raise OptionError(
            f"kfetch knows no namenode of {text}", action=f"correct {kind.keys}"
        ) from None
    except ModuleNotFoundError as missing:
        raise OptionError(
            f"kfetch can't read {text} without the package {missing.name}",
            action=f"install it with pip install 'kfetch[{kind.extra}]'",
        ) from None
    if _has_foreign_token(arguments):
        raise OptionError(
            f"fs.s3a.access.key has a key for {text}, and the client would send {_TOKEN} with it, "
            "the token of another key",
            action=f"remove {_TOKEN}, or set fs.s3a.session.token",
        )
    around = (frozenset(os.environ.items()), monotonic() // _CLIENT_S)
    try:
        return _client(kind.store, json.dumps(arguments, sort_keys=True), patience, around)
    except BaseError:  # its text may have keys
        raise OptionError(
            f"kfetch has no complete keys for {text}", action=f"correct {kind.keys}"
        ) from None


@lru_cache(_CLIENTS_MAX)
def _client(
    name: str, arguments_json: str, patience: _Patience, _around: object
) -> tuple[object, Mapping[str, str]]:
    """Returns the same client again, which has its keys and its connections.

    ``_around``: the environment and the ten minutes. Both may mean other keys.
    """
    from obstore import store

    arguments: dict[str, Any] = json.loads(arguments_json)
    client = {
        "timeout": _milliseconds(patience.request_s),
        "connect_timeout": _milliseconds(min(patience.request_s, _CONNECT_S)),
        **arguments.pop("client_options", {}),
    }
    retries = {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=patience.retries_s),
        "backoff": {"init_backoff": timedelta(seconds=_FIRST_PAUSE_S)},
    }
    # obstore's own ``config`` panics if it has a SAS (0.12).
    options = {
        **{name: str(value) for name, value in (arguments | client).items()},
        "max_retries": str(patience.retries),
        "retry_timeout": _milliseconds(patience.retries_s),
        "backoff_config.init_backoff": _milliseconds(_FIRST_PAUSE_S),
    }
    made = getattr(store, name)
    return made(**arguments, client_options=client, retry_config=retries), MappingProxyType(options)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
