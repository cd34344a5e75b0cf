"""From the text of a location to a path that can be read."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from kfetch.errors import OptionError
from kfetch.storage import s3
from kfetch.storage.locations import local_path, remote_location
from kfetch.storage.objects import ObjectPath
from kfetch.storage.versions import VersionedDirectory, VersionedFile, VersionedObject

_TIMEOUT_S = 10
"""How long one request may take."""
_RETRIES_S = 30
"""How long a request is repeated after a failure of the store or of the network."""
_FIRST_PAUSE_S = 0.1
"""How long the client waits before it repeats a request. Later pauses may be longer."""

READABLE = f"file: and {', '.join(f'{scheme}:' for scheme in s3.SCHEMES)}"
"""What ``stored_path`` has a driver for, in words for errors."""

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
    if remote.scheme not in s3.SCHEMES or not remote.authority:
        return None
    config = s3.s3_config(remote.authority, settings)
    key = posixpath.normpath(f"/{remote.path}").strip("/")  # Hadoop resolves a//b and a/../b, too
    return ObjectPath(remote.root, key, _s3_store(remote.authority, config, text, request_s))


def lease_beside(checkpoint: StoredPath) -> VersionedFile:
    """Returns the lease of a checkpoint. It lies beside the directory itself, not beside links."""
    if isinstance(checkpoint, Path):
        checkpoint = checkpoint.resolve()
    return versioned(checkpoint.parent / f"{checkpoint.name}.lease")


def versioned(path: StoredPath) -> VersionedFile:
    """Returns the file of this path of which only one writer makes the next version."""
    return VersionedDirectory(path) if isinstance(path, Path) else VersionedObject(path)


def _s3_store(
    bucket: str, config: Mapping[str, object], text: str, request_s: float | None
) -> object:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ModuleNotFoundError:
        raise OptionError(
            f"kfetch can't read {text} without the package obstore",
            action="install it with pip install 'kfetch[s3]'",
        ) from None
    wait = f"{round((request_s or _TIMEOUT_S) * 1000)}ms"
    waits = {"timeout": wait, "connect_timeout": wait}
    retries = {
        "max_retries": 0 if request_s else 5,
        "retry_timeout": timedelta(seconds=_RETRIES_S),
        "backoff": {"init_backoff": timedelta(seconds=_FIRST_PAUSE_S)},
    }
    options = {**waits, **config.get("client_options", {})}  # type: ignore[dict-item]
    try:
        return S3Store(
            bucket,
            **{**config, "client_options": options},  # type: ignore[arg-type]
            retry_config=retries,  # type: ignore[arg-type]
        )
    except BaseError:  # its text may have keys
        raise OptionError(
            f"the environment has no complete keys for {text}",
            action="correct the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from None
