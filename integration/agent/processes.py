"""The processes of a query as its operator sees them: agents, Python workers, what they hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


def agents_of(root: psutil.Process) -> list[psutil.Process]:
    """The agents whose owners are a process or descend from it."""
    family = {root.pid, *(process.pid for process in root.children(recursive=True))}
    return [agent for agent in psutil.process_iter() if owner_of(agent) in family]


def owner_of(process: psutil.Process) -> int | None:
    """The pid of the JVM that a process serves; None if it is no agent."""
    try:
        command = process.cmdline()
        if "kfetch.agent" not in command:
            return None
        return int(command[command.index("--owner") + 1].split(":")[0])
    except (psutil.Error, ValueError, IndexError):  # it ends, or is not an agent of ours
        return None


def cpu_seconds(root: psutil.Process) -> float:
    """Processor time of a process, all below it (JVM, Python), and their agents.

    One that ends while it is asked counts with its parent, which waited for it.
    """
    spent = 0.0
    for process in [root, *root.children(recursive=True), *agents_of(root)]:
        with suppress(psutil.Error):
            spent += sum(process.cpu_times()[:4])  # user and system, its own and its children's
    return spent


def by_role(root: psutil.Process) -> list[tuple[str, psutil.Process]]:
    """The agents and Spark's Python processes of a process, each with what it is: ``agent``, or the
    module that Spark runs there (``pyspark.worker`` is a task's, or their daemon)."""
    found = [("agent", agent) for agent in agents_of(root)]
    for process in root.children(recursive=True):
        with suppress(psutil.Error):
            found += [(part, process) for part in process.cmdline()[-1:] if "pyspark." in part]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a process holds."""

    descriptors: int
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, process: psutil.Process) -> Held:
        """What it holds now. Raises psutil.Error, OSError if it has ended."""
        return cls(
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            memory_bytes=private_bytes(process),
        )

    def combined(self, other: Held, choose: Callable[[int, int], int]) -> Held:
        """The smaller or the larger figures of two."""
        return Held(
            descriptors=choose(self.descriptors, other.descriptors),
            threads=choose(self.threads, other.threads),
            memory_bytes=choose(self.memory_bytes, other.memory_bytes),
        )


def resting(root: psutil.Process, seconds: float) -> dict[str, Held]:
    """What the largest process of each role holds between its tasks: the least of many looks,
    because in the midst of a task it holds more."""
    least: dict[tuple[str, int], Held] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for role, process in by_role(root):
            with suppress(psutil.Error, OSError):
                now = Held.of(process)
                least[role, process.pid] = now.combined(least.get((role, process.pid), now), min)
    return _largest(least)


def _largest(least: dict[tuple[str, int], Held]) -> dict[str, Held]:
    largest: dict[str, Held] = {}
    for (role, _), held in least.items():
        largest[role] = held.combined(largest.get(role, held), max)
    return largest


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them is alive."""
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def private_bytes(process: psutil.Process) -> int:
    """Resident memory that is no file's: heap, stacks and shared memory (memfd), in bytes.

    Linux's own sum, VmRSS less RssFile (proc(5)). smaps_rollup tells shared memory only as
    Pss_Shmem, which is halved where a worker maps it too.
    """
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    told = dict(line.split(":", 1) for line in lines)
    return sum(int(told[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
