"""One writer for each checkpoint: a run that slept through its lease writes nothing when it wakes.

``KFETCH_ROUNDS`` is the number of rounds of the long tests, and ``KFETCH_SEED`` repeats the moments
of another run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from integration.conftest import TopicFactory
from integration.storage.hosts import (
    LENGTH_S,
    SEED,
    Host,
    Hosts,
    check_everything_once,
    opened,
    producing,
    signal_all,
)
from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

ROUNDS = int(os.environ.get("KFETCH_ROUNDS", "50"))
LONG = (pytest.mark.long, pytest.mark.timeout(7200))
CASES = [("disk", "append", "stopped", 1)] + [
    pytest.param(place, mode, how, ROUNDS, marks=LONG)
    for place in ("disk", "s3")
    for mode in ("append", "merge")
    for how in ("stopped", "paused")
]


@pytest.mark.parametrize(("place", "mode", "how", "rounds"), CASES)
def test_a_frozen_run(
    tmp_path: Path,
    kafka: Cluster,
    topic: TopicFactory,
    place: str,
    mode: str,
    how: str,
    rounds: int,
) -> None:
    """It is frozen at a random moment for three leases while another host takes over, and woken.

    It writes nothing after the other one's first commit. In the end each record is there once.
    The kernel ends a run that was ``stopped`` with its lease. If it is ``paused``, no timer of the
    kernel sees the pause, as in a virtual machine that is paused whole. Then the lease is asked
    before each commit, and Delta and Spark refuse what is there already.
    """
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    clicks = topic(2)
    with opened(place, tmp_path) as there:
        job, servers = there.job(clicks, mode), kafka.bootstrap_servers
        hosts = Hosts(tmp_path, job, servers, paused=how == "paused")
        try:
            with producing(kafka, clicks) as stop:
                running = hosts.start()
                running.wait_for_batches()
                for _ in range(rounds):
                    time.sleep(draw.random() * 0.7)
                    tree = frozen(running, draw)
                    at = time.monotonic()
                    after = hosts.start()
                    after.wait_for_batches(2)  # the first one may be there already
                    time.sleep(max(0.0, at + 3 * LENGTH_S - time.monotonic()))
                    taken_over = there.writers().index(after.name)
                    wake(running, tree)
                    assert running.name not in there.writers()[taken_over:], running.lines
                    running = after
                records = stop()
            check_everything_once(there, running, records)
        finally:
            hosts.end()


def frozen(host: Host, draw: random.Random) -> list[psutil.Process]:
    """Stop all processes of a host, in a random order."""
    tree = host.tree()
    draw.shuffle(tree)
    signal_all(tree, signal.SIGSTOP)
    return tree


def wake(host: Host, tree: list[psutil.Process]) -> None:
    """Let the processes of a host go on, and wait until they have ended by themselves."""
    signal_all(tree, signal.SIGCONT)
    host.process.wait(60)
    _, alive = psutil.wait_procs(tree, timeout=30)
    assert [] == alive
    assert 0 != host.process.returncode, host.lines


NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
"""As a container: another network, and processes that do not see those outside."""


@pytest.mark.long  # the unit tests of the job's lock have its sentences, on a disk and in a store
@pytest.mark.parametrize("place", ["disk", "s3"])
def test_a_second_run_on_another_host(
    tmp_path: Path, kafka: Cluster, topic: TopicFactory, place: str
) -> None:
    """It is refused in one sentence, and the first one goes on. A third one follows a clean end at
    once. Another host has another name. On a disk, it is also in namespaces of its own."""
    clicks = topic(2)
    with opened(place, tmp_path) as there:
        hosts = Hosts(tmp_path, there.job(clicks, "append"), kafka.bootstrap_servers)
        try:
            with producing(kafka, clicks):
                first = hosts.start()
                first.wait_for_batches()
                for within in [(), *([NAMESPACES] if place == "disk" and permitted() else [])]:
                    error = refused(hosts.start(within=within))
                    lease = f"{there.base}/checkpoint.lease"
                    holder = f"is held by process {first.process.pid} on host "
                    assert f"error: job clicks: the lease {lease} {holder}" in error
                first.wait_for_batches(first.batches() + 1)
                first.process.terminate()
                assert 0 == first.process.wait(90), first.lines
                third = hosts.start()
                third.wait_for_batches()
                assert not [line for line in third.lines if "Waiting" in line]
        finally:
            hosts.end()


def permitted() -> bool:
    """Whether this user may make namespaces."""
    done = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True)
    return done.returncode == 0


def refused(host: Host) -> str:
    """Returns the error of a host whose run has ended with one."""
    assert 1 == host.process.wait(60), host.lines
    wait_until(lambda: any("error" in line for line in host.lines), what="the error")
    [error] = [line for line in host.lines if line.startswith("error: ")]
    return error
