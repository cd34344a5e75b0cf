"""What kfetch does with S3, it does with Azure and HDFS: the same tests, over other servers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.storage.azurite import running_azurite
from integration.storage.hosts import running_hdfs

pytestmark = pytest.mark.integration

_VERSIONS = "kfetch/storage/test_versions.py"
_SUITES = [
    _VERSIONS,
    "kfetch/storage/test_frozen_holder.py",
    "kfetch_jobs/run/test_job_lock.py",
    "kfetch/storage/test_objects.py",
    "kfetch/storage/test_store_faults.py",
    "kfetch/admin/test_checkpoint.py",
    "kfetch/admin/cli/test_checkpoints.py",
    "kfetch_jobs/offsets/test_places.py",
    "kfetch_jobs/offsets/test_store_faults.py",
    "kfetch_jobs/supervise/test_leadership.py",
    "kfetch_jobs/verbs/test_remote_checkpoint.py",
]
"""Tests of leases, checkpoints, moves of offsets, faults of the store, and two supervisors."""


def run(store: str, suites: Sequence[str], chosen: str) -> None:
    """Run the tests over a store, but those about S3 alone."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-m", "not s3", "-k", chosen),
            *(f"tests/{suite}" for suite in suites),
        ],
        env={**os.environ, "KFETCH_STORE": store},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-8000:]


def test_azure() -> None:
    """All tests of stores pass."""
    with running_azurite() as store:
        run(store.endpoint, _SUITES, "not disk")


def test_versions_in_hdfs(tmp_path: Path) -> None:
    """Of several writers one makes the next version. Other tests would take long: each file takes
    HDFS half a second. The long test of kills has whole runs there."""
    with running_hdfs(tmp_path) as (uri, _):
        run(uri, [_VERSIONS], "store and not bucket and not ignores")
