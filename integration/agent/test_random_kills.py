"""Random kills and full disks leave nothing behind: no agents, descriptors, sockets or files.

``KFETCH_KILLS`` is the number of kills and changes of the disk, 200 by default. ``KFETCH_SEED``
repeats the events of another run.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from integration.conftest import TopicFactory
from integration.records import producer
from kfetch.agent.home import ProcessIdentity
from kfetch.model import Split
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]

EVENTS = int(os.environ.get("KFETCH_KILLS", "200"))
SEED = int(os.environ.get("KFETCH_SEED", str(random.SystemRandom().randrange(1 << 32))))
PARTITIONS, RECORDS = 4, 4000
EXECUTORS, WORKERS = 2, 2
PAUSE_S_MAX = 1.0  # between two events: longer than an agent's start, so kills come at all stages
PATIENCE_S = 120.0
WEEK_S = 7 * 24 * 3600
WEIGHTS = {"agent": 30, "agent (SIGTERM)": 10, "worker": 35, "executor": 10, "disk": 15}


@dataclass(slots=True)
class Executor:
    """An executor: a process that owns an agent, and its workers."""

    process: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Resources:
    """What agents use, and could leave behind."""

    agents: int
    descriptors: int
    sockets: int
    files: int


class Machine:
    """Executors and workers. Their agents keep files on a small disk."""

    def __init__(self, disk: Path, split: Path, output: Path, chance: random.Random) -> None:
        self._disk = disk
        self._split = split
        self._output = output
        self._chance = chance
        self._executors: list[Executor] = []

    def close(self) -> None:
        """End every process."""
        for executor in self._executors:
            self._kill(executor)
        wait_until(lambda: not self.agents())

    def replace_ended(self) -> None:
        """Start new processes for those that have ended."""
        ended = [one for one in self._executors if one.process.poll() is not None]
        for executor in ended:  # Spark's daemon ends the workers of a dead executor
            self._kill(executor)
            self._executors.remove(executor)
        while len(self._executors) < EXECUTORS:
            self._executors.append(Executor(subprocess.Popen(["sleep", "3600"])))
        for executor in self._executors:
            executor.workers = [one for one in executor.workers if one.poll() is None]
            while len(executor.workers) < WORKERS:
                executor.workers.append(self._worker(executor, "forever"))

    def cause(self, event: str) -> bool:
        """Cause a kill, or a change of the disk. Returns False if no agent runs to kill."""
        executor = self._chance.choice(self._executors)
        if event == "disk":
            self._toggle_disk()
        elif event == "executor":
            executor.process.kill()
            executor.process.wait()
        elif event == "worker":
            self._chance.choice(executor.workers).kill()
        else:
            return self._kill_agent(signal.SIGTERM if "SIGTERM" in event else signal.SIGKILL)
        return True

    def read_undisturbed(self) -> None:
        """Make room on the disk, end the looping workers, and read once in each executor."""
        self._empty_disk()
        self.replace_ended()
        for executor in self._executors:
            for worker in executor.workers:
                worker.kill()
                worker.wait()
            worker = self._worker(executor)
            assert 0 == worker.wait(PATIENCE_S), self._output.read_text()[-4000:]

    def resources(self) -> Resources:
        """Returns what the agents use now. No task must be running."""
        descriptors = 0
        for agent in (agents := self.agents()):
            with suppress(psutil.Error):
                descriptors += agent.num_fds()
        names = [path.name for path in self._disk.rglob("*") if path.is_file() or path.is_socket()]
        sockets = sum(name.endswith(".sock") for name in names)
        return Resources(len(agents), descriptors, sockets, len(names))

    def kill_and_age(self) -> None:
        """Kill each agent, and set the times of all files back by two weeks."""
        for agent in self.agents():
            agent.kill()
        assert wait_until(lambda: not self.agents())
        for path in self._disk.rglob("*.*"):
            os.utime(path, (time.time() - 2 * WEEK_S,) * 2)

    def agents(self) -> list[psutil.Process]:
        """Returns the running agents whose files are on the disk."""
        return [
            process
            for process in psutil.process_iter(["cmdline", "status"])
            if process.info["status"] != psutil.STATUS_ZOMBIE
            and "kfetch.agent" in (command := process.info["cmdline"] or [])
            and any(word.startswith(str(self._disk)) for word in command)
        ]

    def _worker(self, executor: Executor, *more: str) -> subprocess.Popen[bytes]:
        owner = str(ProcessIdentity.of(executor.process.pid))
        command = [sys.executable, "-m", "integration.agent.looping_worker", str(self._split)]
        errors = self._output.with_suffix(".errors")
        with self._output.open("ab") as output, errors.open("ab") as error:
            return subprocess.Popen([*command, owner, *more], stdout=output, stderr=error)

    def _kill(self, executor: Executor) -> None:
        for process in (executor.process, *executor.workers):
            process.kill()
            process.wait()

    def _kill_agent(self, number: signal.Signals) -> bool:
        agents = self.agents()
        if agents:
            with suppress(psutil.Error):
                self._chance.choice(agents).send_signal(number)
        return bool(agents)

    def _toggle_disk(self) -> None:
        """Fill the disk with bytes or with files, or make room again."""
        if any(self._disk.glob("ballast*")):
            self._empty_disk()
            return
        count, size = self._chance.choice([(1, 1 << 24), (1 << 10, 0)])
        with suppress(OSError):
            for number in range(count):
                (self._disk / f"ballast-{number}").write_bytes(bytes(size))

    def _empty_disk(self) -> None:
        for path in self._disk.glob("ballast*"):
            path.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 1 MiB and 400 files, for the files of agents."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=400", "none", str(directory)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_kills_leave_nothing_behind(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path, disk: Path
) -> None:
    """After all events there are as many agents and descriptors as before.

    Files of killed agents may stay for a week. Then the next agent removes them.

    Every read gets all records, or fails with AgentError.
    """
    chance = random.Random(SEED)
    split, output = tmp_path / "split", tmp_path / "output"
    split.write_bytes(pickled_split(kafka, topic(PARTITIONS)))
    events: Counter[str] = Counter()
    begun = time.monotonic()
    print(f"seed {SEED}")
    with closing(Machine(disk, split, output, chance)) as machine:
        machine.read_undisturbed()
        before = settled(machine, None)
        while events.total() < EVENTS:
            machine.replace_ended()
            time.sleep(chance.uniform(0, PAUSE_S_MAX))  # so that events come at all stages
            (event,) = chance.choices([*WEIGHTS], [*WEIGHTS.values()])
            events[event] += machine.cause(event)
        machine.read_undisturbed()
        after = settled(machine, before)
        machine.kill_and_age()
        machine.read_undisturbed()
        later = settled(machine, before)
    reads = Counter(re.sub(r":.*", "", line) for line in output.read_text().splitlines())
    print(f"{events.total()} events in {time.monotonic() - begun:.0f} s: {events}")
    print(f"before {before}\nafter  {after}\na week later {later}\nreads {reads}")

    assert (before.agents, before.descriptors) == (after.agents, after.descriptors)
    assert before == later
    assert {str(RECORDS), "AGENT_ERROR"} >= reads.keys()
    assert "Traceback" not in output.with_suffix(".errors").read_text()


def pickled_split(cluster: Cluster, topic: str) -> bytes:
    """Fills a topic. Returns a pickled split of all its records, with the options."""
    with producer(cluster) as sender:
        for number in range(RECORDS):
            sender.send(topic, value=b"%1000d" % number, partition=number % PARTITIONS)
    options = parse(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kfetch.agent": "process",
            "kafka.max.partition.fetch.bytes": "16384",  # hundreds of requests for each read
        }
    )
    driver = Driver(options)
    try:
        driver.prepare_available_now()
        start = driver.initial_offsets()
        end = driver.next_end(start, None)
        assert end is not None
        parts = driver.splits(start, end)
    finally:
        driver.close()
    ranges = tuple(item for part in parts for item in part.ranges)
    return pickle.dumps((Split(query=parts[0].query, ranges=ranges), options))


def settled(machine: Machine, expected: Resources | None) -> Resources:
    """Returns the resources once they are the expected ones, or have not changed for 10 s."""
    resources = machine.resources()
    since = time.monotonic()
    while resources != expected and time.monotonic() - since < 10:
        time.sleep(0.2)
        if (now := machine.resources()) != resources:
            resources, since = now, time.monotonic()
    return resources


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Wait until a condition is true. Returns whether it was in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
