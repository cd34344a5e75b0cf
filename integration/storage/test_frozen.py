"""One writer for each checkpoint: a run that slept through its lease writes nothing when it wakes.

Two hosts are two storages of one job, with one checkpoint and one table. Each host's commits have
its name, so the table's log tells who wrote what.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer

from integration.conftest import TopicFactory
from integration.delta_columns import column
from integration.storage.query import s3a_jars
from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster
from tests.kfetch.agent.helpers import wait_until as wait_for
from tests.store import BUCKET, Store, running_store

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

_START_S = 500
"""On a busy machine Spark's start and its first micro-batch take minutes."""
LONG = pytest.mark.long
LENGTH_S = 6.0
"""Of a run's lease. A busy machine may leave a process without a turn for a second or two."""
JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 1000}}
sink:
  path: {base}/table
  mode: {mode}
{keys}trigger: {{processingTime: 200ms}}
checkpoint: {base}/checkpoint
spark:
  spark.master: local[2]
  spark.driver.memory: 600m
  spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
  spark.databricks.delta.commitInfo.userMetadata: {host}
{spark}"""
PROJECT = """\
storage: storage
clusters:
  main:
    bootstrap.servers: {servers}
"""


@dataclass
class Place:
    """Where the table is: on this machine, or in a store."""

    base: str
    settings: dict[str, str]
    directory: Path
    """Its files on this machine, or a copy of them."""
    store: Store | None = None

    def table(self) -> Path:
        """Returns the table's directory on this machine, as it is now."""
        if self.store is not None:
            _download(self.store, "lake/table", self.directory / "table")
        return self.directory / "table"

    def writers(self) -> list[str]:
        """Returns which host has written each version of the table."""
        log = self.table() / "_delta_log"
        commits = [file.read_text().splitlines() for file in sorted(log.glob("*.json"))]
        infos = (json.loads(line) for lines in commits for line in lines if "commitInfo" in line)
        return [str(info["commitInfo"].get("userMetadata")) for info in infos]


def _download(store: Store, prefix: str, directory: Path) -> None:
    for name, content in store.contents(prefix).items():
        file = directory / name
        if name and not name.endswith("/") and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as held:
        if request.param == "disk":
            yield Place(f"{tmp_path}/lake", {}, tmp_path / "lake")
            return
        store = held.enter_context(running_store())
        # They stand before Spark's own jars, which have another Netty.
        jars = ":".join(str(jar) for jar in s3a_jars() if not jar.name.startswith("netty-"))
        more = {
            "spark.driver.extraClassPath": jars,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        }
        yield Place(f"s3a://{BUCKET}/lake", store.settings | more, tmp_path / "lake", store)


@dataclass
class Host:
    """A process that runs the job."""

    name: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def batches(self) -> int:
        """How many micro-batches it has reported."""
        return sum(line.startswith("batch") for line in self.lines)

    def tree(self) -> list[psutil.Process]:
        """Its processes that live."""
        with suppress(psutil.NoSuchProcess):
            whole = psutil.Process(self.process.pid)
            return [whole, *whole.children(recursive=True)]
        return []


class Hosts:
    """Starts hosts, and ends them all."""

    def __init__(self, directory: Path, job: str, servers: str, *, paused: bool) -> None:
        self._directory, self._job, self._servers = directory, job, servers
        self._paused = paused
        self._hosts: list[Host] = []
        self._readers: list[threading.Thread] = []

    def start(self) -> Host:
        name = f"h{len(self._hosts)}"
        files = self._directory / name
        (files / "jobs").mkdir(parents=True)
        (files / "kfetch.yml").write_text(PROJECT.format(servers=self._servers))
        (files / "jobs" / "clicks.yml").write_text(self._job.replace("HOST", name))
        asked = {
            "files": str(files),
            "machine": name,
            "length_s": LENGTH_S,
            "paused": self._paused,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "integration.storage.host", json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        host = Host(name, process)
        self._hosts.append(host)
        self._readers.append(threading.Thread(target=self._read, args=(host,), daemon=True))
        self._readers[-1].start()
        return host

    def _read(self, host: Host) -> None:
        assert host.process.stdout is not None
        with host.process.stdout as output:
            for line in output:
                host.lines.append(line.strip())

    def end(self) -> None:
        for host in self._hosts:
            for process in reversed(host.tree()):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            host.process.wait()
        for reader in self._readers:
            reader.join(10)


@contextmanager
def producing(kafka: Cluster, topic: str) -> Iterator[Callable[[], dict[int, int]]]:
    """Sends records until the function that it yields is called, which returns the log ends."""
    done, ends = threading.Event(), {0: 0, 1: 0}

    def send() -> None:
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            while not done.wait(0.1):
                for partition in ends:
                    producer.send(topic, b"x", partition=partition)
                    ends[partition] += 1
                producer.flush()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()

    def stop() -> dict[int, int]:
        done.set()
        thread.join(60)
        return ends

    try:
        yield stop
    finally:
        stop()


def frozen(host: Host, draw: random.Random) -> list[psutil.Process]:
    """Stop all processes of a host, in a random order."""
    tree = host.tree()
    draw.shuffle(tree)
    for process in tree:
        process.send_signal(signal.SIGSTOP)
    return tree


SHORT = {("disk", "append", False), ("s3", "merge", True)}
"""These are tried in two rounds at each landing. All others, and fifty rounds, take long."""
CASES = [
    pytest.param(place, mode, paused, 2, marks=() if (place, mode, paused) in SHORT else LONG)
    for place in ("disk", "s3")
    for mode in ("append", "merge")
    for paused in (False, True)
]
HOURS = (LONG, pytest.mark.timeout(7200))
CASES += [pytest.param(*case, 50, marks=HOURS) for case in sorted(SHORT)]


@pytest.mark.parametrize(("place", "mode", "paused", "rounds"), CASES, indirect=["place"])
def test_a_frozen_run(
    tmp_path: Path,
    kafka: Cluster,
    topic: TopicFactory,
    place: Place,
    mode: str,
    paused: bool,
    rounds: int,
) -> None:
    """It is frozen at a random moment for three leases while another host takes over, and woken.

    It writes nothing after the other one's first commit. In the end each record is there once.
    The kernel ends it with its lease. If it is ``paused``, no timer of the kernel sees the pause,
    as in a virtual machine that is paused whole. Then the lease is asked before each commit, and
    Delta and Spark refuse what is there already.
    """
    draw = random.Random(f"{place.base[:3]} {mode} {paused}")
    clicks = topic(2)
    keys = "  keys: [partition, offset]\n" if mode == "merge" else ""
    spark = "".join(f"  {name}: '{value}'\n" for name, value in place.settings.items())
    job = JOB.format(topic=clicks, base=place.base, mode=mode, keys=keys, host="HOST", spark=spark)
    hosts = Hosts(tmp_path, job, kafka.bootstrap_servers, paused=paused)
    try:
        with producing(kafka, clicks) as stop:
            running = hosts.start()
            wait_for_batches(running)
            for _ in range(rounds):
                time.sleep(draw.random() * 0.7)
                tree = frozen(running, draw)
                at = time.monotonic()
                after = hosts.start()
                wait_for_batches(after)
                time.sleep(max(0.0, at + 3 * LENGTH_S - time.monotonic()))
                taken_over = place.writers().index(after.name)
                for process in tree:
                    with suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.SIGCONT)
                running.process.wait(60)
                _, alive = psutil.wait_procs(tree, timeout=30)
                assert [] == alive
                assert 0 != running.process.returncode, running.lines
                assert running.name not in place.writers()[taken_over:], running.lines
                running = after
            ends = stop()
            table_has_all(place, ends)
            running.process.send_signal(signal.SIGTERM)
            assert 0 == running.process.wait(90), running.lines
        rows = sorted(
            zip(column(place.table(), "partition"), column(place.table(), "offset"), strict=True)
        )
        assert [(p, at) for p in sorted(ends) for at in range(ends[p])] == rows
    finally:
        hosts.end()


def wait_for_batches(host: Host) -> None:
    """Wait until a host has committed a micro-batch."""
    done = wait_for(lambda: host.batches() >= 1 or host.process.poll() is not None, _START_S)
    assert done, host.lines
    assert host.process.poll() is None, host.lines


def table_has_all(place: Place, ends: dict[int, int]) -> None:
    """Wait until the table has as many rows as there are records."""
    wait_until(
        lambda: len(column(place.table(), "offset")) >= sum(ends.values()),
        what="the last records in the table",
    )


@pytest.mark.parametrize("place", ["disk", pytest.param("s3", marks=LONG)], indirect=True)
def test_a_second_run_on_another_host(
    tmp_path: Path, kafka: Cluster, topic: TopicFactory, place: Place
) -> None:
    """It is refused in one sentence, and the first one goes on. A third one follows a clean end at
    once."""
    clicks = topic(2)
    spark = "".join(f"  {name}: '{value}'\n" for name, value in place.settings.items())
    job = JOB.format(
        topic=clicks, base=place.base, mode="append", keys="", host="HOST", spark=spark
    )
    hosts = Hosts(tmp_path, job, kafka.bootstrap_servers, paused=False)
    try:
        with producing(kafka, clicks):
            first = hosts.start()
            wait_for_batches(first)
            second = hosts.start()
            assert 1 == second.process.wait(60)
            wait_until(lambda: any("error" in line for line in second.lines), what="the error")
            [error] = [line for line in second.lines if line.startswith("error: ")]
            assert (
                f"error: job clicks: the lease {place.base}/checkpoint.lease is held by process "
                f"{first.process.pid} on host "
            ) in error
            before = first.batches()
            wait_until(lambda: first.batches() > before, what="another micro-batch")
            first.process.send_signal(signal.SIGTERM)
            assert 0 == first.process.wait(90), first.lines
            third = hosts.start()
            wait_for_batches(third)
            assert not [line for line in third.lines if "Waiting" in line]
    finally:
        hosts.end()
