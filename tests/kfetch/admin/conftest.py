"""Checkpoints on this machine and in a store: the same tests for both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kfetch.storage.open import StoredPath

Stored = Callable[[Path], StoredPath]


IN_STORE = (pytest.mark.store, pytest.mark.allow_hosts(["127.0.0.1"]))


@pytest.fixture(params=["disk", pytest.param("s3", marks=IN_STORE)])
def stored(request: pytest.FixtureRequest) -> Stored:
    """Returns where a directory's files are read: where they are, or from a copy in a store."""
    if request.param == "disk":
        return lambda directory: directory
    upload: Stored = request.getfixturevalue("store").upload
    return upload
