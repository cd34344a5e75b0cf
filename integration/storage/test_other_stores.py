"""What kfetch does with S3, it does with Azure and HDFS: the same tests, over other servers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from integration.storage.azurite import running_azurite
from integration.storage.hosts import running_hdfs
from kfetch.delta.files import written_files
from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.places import address
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path
from kfetch.storage.transfer import Upload
from tests.kfetch.delta.tables import field, plan_of

pytestmark = pytest.mark.integration

_VERSIONS = "kfetch/storage/test_versions.py"
_OBJECTS = "kfetch/storage/test_objects.py"
_STRAIGHT = "kfetch/delta/test_stores.py"
_SUITES = [
    _VERSIONS,
    "kfetch/storage/test_frozen_holder.py",
    "kfetch_jobs/run/test_job_lock.py",
    _OBJECTS,
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


@pytest.mark.long
def test_straight_writes_in_azure() -> None:
    """Files appear whole, and each commit is there once, whatever the store does."""
    with running_azurite() as store:
        run(store.endpoint, [_STRAIGHT], "not disk")


def test_versions_by_generations() -> None:
    """Of several writers one makes the next version, and a store that ignores conditions is
    recognised. moto gets Google's rule for conditions: no store of Google's runs here."""
    run("gs", [_VERSIONS], "not disk")


@pytest.mark.long
def test_straight_writes_by_generations() -> None:
    """Files and commits are as in Azure, with Google's rule for conditions."""
    run("gs", [_STRAIGHT], "not disk")


@pytest.mark.long
def test_straight_writes_in_hdfs(tmp_path: Path) -> None:
    """Files and the log are there, of two committers each commit once, and nothing else stays."""
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
    with running_hdfs(tmp_path) as (uri, _):
        settings = {"spark.hadoop.fs.defaultFS": uri, "spark.hadoop.dfs.replication": "1"}
        place = stored_path("hdfs:///lake/t", settings)
        assert isinstance(place, ObjectPath)
        plan = plan_of(str(place), ["n"])
        logs = [TableLog(place, [field("n")], []) for _ in range(2)]
        for log in logs:
            log.open(merge_schema=False)
        (row,) = [one.to_pylist()[0] for one in written_files([batch], [plan], settings)]
        assert str(place) == row.pop("table")
        files = [WrittenFile(**row | {"partitions": {}})]

        def commit(log: TableLog, query: str) -> list[bool]:
            return [log.commit(query, number, files, lambda: None) for number in (0, 1, 1)]

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(commit, logs, ("one", "two")))
        upload = Upload(place / "given up")
        upload.write(bytes(3 << 20))
        upload.discard()

        assert [[True, True, False]] * 2 == answers
        assert 5 == len((place / "_delta_log").page_behind("0").names)
        table = DeltaTable(**address(place))
        assert [1, 1] == [table.transaction_version(query) for query in ("one", "two")]
        assert [1, 2] == table.to_pyarrow_table()["n"].to_pylist()
        assert [files[0].path] == [one.name for one in place.iterdir() if one.name != "_delta_log"]


def test_versions_in_hdfs(tmp_path: Path) -> None:
    """Of several writers one makes the next version. Other tests would take long: each file takes
    HDFS half a second. The long test of kills has whole runs there."""
    with running_hdfs(tmp_path) as (uri, _):
        run(
            uri,
            [_VERSIONS, _OBJECTS],
            "(versions and store and not bucket and not ignores) or tree_is",
        )
