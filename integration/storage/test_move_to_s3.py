"""A job moves from a disk to S3, as docs/how-to/stores.md says: each record is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.storage.hosts import Hosts, Place, check_everything_once, opened, producing
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_job_moves(tmp_path: Path, kafka: Cluster, topic: TopicFactory) -> None:
    """It is killed, and its files are copied as they are. Before the copy, a run in S3 is refused.
    With the copy, the job goes on where it was."""
    clicks = topic(2)
    with opened("disk", tmp_path) as disk, opened("s3", tmp_path) as store:
        before = Hosts(tmp_path, disk.job(clicks, "letters"), kafka.bootstrap_servers)
        after = Hosts(tmp_path, store.job(clicks, "letters"), kafka.bootstrap_servers)
        try:
            with producing(kafka, clicks) as stop:
                first = before.start("h")
                first.wait_for_batches(2)
                first.process.kill()
                first.process.wait(30)
                early = after.start("h")
                assert 1 == early.process.wait(180), early.lines
                upload(Path(disk.base), store)
                last = after.start("h")
                last.wait_for_batches(2)
                records = stop()
            check_everything_once(store, last, records)
            assert any("has no offsets in its checkpoint s3a://" in line for line in early.lines)
        finally:
            before.end()
            after.end()


def upload(directory: Path, place: Place) -> None:
    """Copy all files below a directory."""
    for file in (path for path in directory.rglob("*") if path.is_file()):
        there = stored_path(f"{place.base}/{file.relative_to(directory)}", place.settings)
        assert isinstance(there, ObjectPath)
        there.store.put(there.key, file.read_bytes())
