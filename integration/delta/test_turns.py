"""Both ways by turns on one checkpoint and table, while a producer writes; the same rows by both.

``KFETCH_TURNS`` is the number of changes. delta-rs reads the tables.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from integration.conftest import TopicFactory
from integration.storage.hosts import Hosts, Place, check_everything_once, opened, producing
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

TURNS = int(os.environ.get("KFETCH_TURNS", "20"))


@pytest.mark.parametrize("place", ["disk", "s3"])
def test_turns(tmp_path: Path, kafka: Cluster, topic: TopicFactory, place: str) -> None:
    """Each change is a stop and a start with the other ``sink.write``. Every second one is SIGKILL
    in place of the stop. Each start writes at least one micro-batch in its own way."""
    clicks = topic(2)
    with opened(place, tmp_path) as there:
        hosts = Hosts(tmp_path, there.job(clicks, "turns"), kafka.bootstrap_servers)
        try:
            with producing(kafka, clicks) as stop:
                host = hosts.start("h")
                for turn in range(TURNS):
                    host.wait_for_batches(2)  # the first one may repeat the other way's last one
                    host.process.send_signal(signal.SIGKILL if turn % 2 else signal.SIGTERM)
                    host.process.wait(90)
                    host = hosts.start("h")
                host.wait_for_batches(2)
                records = stop()
            check_everything_once(there, host, records)
        finally:
            hosts.end()
        table = DeltaTable(f"{there.base}/table", storage_options=there.options)
        engines = [str(one.get("engineInfo", one.get("clientVersion"))) for one in table.history()]
    by_delta_rs = ["delta-rs" in engine for engine in engines]
    changes = sum(one != other for one, other in pairwise(by_delta_rs))
    assert TURNS <= changes, engines


def test_rows_in_s3(tmp_path: Path, kafka: Cluster, topic: TopicFactory) -> None:
    """Rows and dead letters in S3 are those that Spark writes there, with the same types."""
    clicks = topic(2)
    with producing(kafka, clicks) as stop, opened("s3", tmp_path) as there:
        found = {}
        for mode in ("letters", "straight-letters"):
            own = replace(there, base=f"{there.base}/{mode}")
            hosts = Hosts(tmp_path / mode, own.job(clicks, mode), kafka.bootstrap_servers)
            try:
                host = hosts.start("h")
                host.wait_for_batches()
                check_everything_once(own, host, stop())
            finally:
                hosts.end()
            found[mode] = [_sorted(own, name) for name in ("table", "dead")]
    for ours, theirs in zip(found["straight-letters"], found["letters"], strict=True):
        assert theirs.num_rows
        assert theirs.equals(ours)


def _sorted(there: Place, name: str) -> pa.Table:
    table = DeltaTable(f"{there.base}/{name}", storage_options=there.options).to_pyarrow_table()
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()
