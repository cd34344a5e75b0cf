"""Both ways by turns on one checkpoint and one table, while a producer writes: each record once.

``KFETCH_TURNS`` is the number of changes. delta-rs reads the table.
"""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from deltalake import DeltaTable

from integration.conftest import TopicFactory
from integration.storage.hosts import Hosts, check_everything_once, opened, producing
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
                    host.wait_for_batches()
                    host.process.send_signal(signal.SIGKILL if turn % 2 else signal.SIGTERM)
                    host.process.wait(90)
                    host = hosts.start("h")
                host.wait_for_batches()
                records = stop()
            check_everything_once(there, host, records)
        finally:
            hosts.end()
        table = DeltaTable(f"{there.base}/table", storage_options=there.options)
        engines = [str(one.get("engineInfo", one.get("clientVersion"))) for one in table.history()]
    by_delta_rs = ["delta-rs" in engine for engine in engines]
    changes = sum(one != other for one, other in pairwise(by_delta_rs))
    assert TURNS <= changes, engines
