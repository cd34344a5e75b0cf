"""Log-ins that end (KIP-368): a query reads on behind them, in the same fetch session."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration.agent.reader import Reader
from integration.conftest import TopicFactory
from integration.records import write
from integration.secured import SecuredCluster
from integration.security.access import REAUTHENTICATION_MS, VALUES, options
from kfetch.fetch.totals import read_stats

pytestmark = pytest.mark.integration
_LOGINS = 2
"""How many log-ins must end while the query reads."""


@pytest.mark.long
def test_log_ins_end_while_a_query_reads(
    secured: SecuredCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Nothing is lost or comes twice, and the agent keeps its connection and its session."""
    kafka = options(secured, "SASL_PLAINTEXT", mechanism="SCRAM-SHA-256")
    name = topic(cluster=secured)
    write(secured, name, VALUES)
    reader = Reader(secured, name, "process", tmp_path, **kafka)
    offsets: list[int] = []
    try:
        offsets += [offset for _, offset in reader.read()]
        until = time.monotonic() + _LOGINS * REAUTHENTICATION_MS / 1000 + 1
        while time.monotonic() < until:
            write(secured, name, ["more"] * 3)
            offsets += [offset for _, offset in reader.read()]
        stats = read_stats(tmp_path)
    finally:
        reader.close()

    assert len(offsets) > len(VALUES)
    assert [*range(offsets[0], offsets[0] + len(offsets))] == offsets
    assert (1, 0) == (stats.sessions_opened, stats.sessions_lost)
    assert 1 == stats.connections_opened
