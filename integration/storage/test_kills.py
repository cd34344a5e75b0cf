"""SIGKILL at random moments, and a random victim: each record is in the tables exactly once.

``KFETCH_KILLS`` is the number of kills, and ``KFETCH_SEED`` repeats those of another run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from integration.conftest import TopicFactory
from integration.storage.hosts import (
    SEED,
    Host,
    Hosts,
    check_everything_once,
    opened,
    producing,
    signal_all,
)
from kfetch_jobs.kafka import Cluster
from tests.kfetch.agent.helpers import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("KFETCH_KILLS", "20"))
_GOES_ON = 3
"""A run with so many micro-batches after the kill did not need the worker. A task has one try."""
MODES = ("append", "letters", "merge", "straight", "straight-letters")
CASES = [(place, mode) for place in ("disk", "s3") for mode in MODES]
CASES += [("hdfs", "letters"), ("hdfs", "straight-letters")]


@pytest.mark.parametrize(("place", "mode"), CASES)
def test_kills(tmp_path: Path, kafka: Cluster, topic: TopicFactory, place: str, mode: str) -> None:
    """The victim is the run, its JVM, one of Spark's Python processes, or all of them.

    The moment is during the start, or after a micro-batch. The same host starts the job again. In
    the end each record is a row or a dead letter, once. delta-rs reads them.
    """
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    killed: Counter[str] = Counter()
    clicks, began = topic(2), time.monotonic()
    with opened(place, tmp_path) as there:
        hosts = Hosts(tmp_path, there.job(clicks, mode), kafka.bootstrap_servers)
        try:
            with producing(kafka, clicks) as stop:
                host = hosts.start("h")
                while killed.total() < KILLS:
                    killed[strike(host, chance)] += 1
                    if host.ended():
                        host = hosts.start("h")
                host.wait_for_batches()
                records = stop()
            check_everything_once(there, host, records)
        finally:
            hosts.end()
    print(f"{killed} in {time.monotonic() - began:.0f} s, {len(records)} records")


def strike(host: Host, chance: random.Random) -> str:
    """Wait for a moment, kill, and wait until the run has ended or goes on. Returns the victim."""
    if during_start := chance.random() < 0.2:
        time.sleep(chance.uniform(0, 8))
    else:
        host.wait_for_batches(host.batches() + 1)
        time.sleep(chance.uniform(0, 1.5))
    victim, processes = chosen(host.tree(), chance)
    enough = host.batches() + _GOES_ON
    signal_all(processes, signal.SIGKILL)
    assert wait_until(lambda: host.ended() or host.batches() >= enough, 180), host.lines
    return f"{victim} at the start" if during_start else victim


def chosen(tree: list[psutil.Process], chance: random.Random) -> tuple[str, list[psutil.Process]]:
    """Returns a victim of a run that lives, and its processes. Without a JVM it is the run."""
    java = [process for process in tree if process.name() == "java"]
    others = [process for process in tree[1:] if process not in java]
    victims = {"run": tree[:1], "all": tree, "JVM": java}
    victims["worker"] = [chance.choice(others)] if others else []
    victim = chance.choice([name for name, processes in victims.items() if processes])
    return victim, victims[victim]
