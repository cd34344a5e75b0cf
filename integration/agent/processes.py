"""The processes of a query as its operator sees them: agents, Python workers, their resources."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


def agents_of(root: psutil.Process) -> list[psutil.Process]:
    """Returns the agents whose owner is a process or a descendant of it."""
    family = {root.pid, *(process.pid for process in root.children(recursive=True))}
    return [agent for agent in psutil.process_iter() if owner_of(agent) in family]


def owner_of(process: psutil.Process) -> int | None:
    """Returns the pid of an agent's owner; None if the process is no agent."""
    try:
        command = process.cmdline()
        if "kfetch.agent" not in command:
            return None
        return int(command[command.index("--owner") + 1].split(":")[0])
    except (psutil.Error, ValueError, IndexError):  # it has ended, or belongs to another user
        return None


def cpu_seconds(root: psutil.Process) -> float:
    """Returns the processor time of a process, its descendants (JVM, Python) and their agents.

    If one ends meanwhile, its time counts with its parent, which waited for it.
    """
    spent = 0.0
    for process in [root, *root.children(recursive=True), *agents_of(root)]:
        with suppress(psutil.Error):
            spent += sum(process.cpu_times()[:4])  # user and system, its own and its children's
    return spent


def by_role(root: psutil.Process) -> list[tuple[str, psutil.Process]]:
    """Returns the agents and Spark's Python processes of a process, each with its role.

    The role is ``agent``, or the module that Spark runs: ``pyspark.worker`` runs tasks,
    ``pyspark.daemon`` starts the workers.
    """
    processes = [("agent", agent) for agent in agents_of(root)]
    for process in root.children(recursive=True):
        with suppress(psutil.Error):
            processes += [(part, process) for part in process.cmdline()[-1:] if "pyspark." in part]
    return processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of a process."""

    descriptors: int
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, process: psutil.Process) -> Resources:
        """Returns the resources now. Raises psutil.Error or OSError if the process has ended."""
        return cls(
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            memory_bytes=private_bytes(process),
        )

    def combined(self, other: Resources, choose: Callable[[int, int], int]) -> Resources:
        """Returns the smaller or the larger figures of two, as ``choose`` says."""
        return Resources(
            descriptors=choose(self.descriptors, other.descriptors),
            threads=choose(self.threads, other.threads),
            memory_bytes=choose(self.memory_bytes, other.memory_bytes),
        )


def resources_at_rest(root: psutil.Process, seconds: float) -> dict[str, Resources]:
    """Returns the resources of the largest process of each role, between its tasks.

    Takes the least of many samples within ``seconds``: during a task a process has more.
    """
    least: dict[tuple[str, int], Resources] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for role, process in by_role(root):
            with suppress(psutil.Error, OSError):
                now = Resources.of(process)
                least[role, process.pid] = now.combined(least.get((role, process.pid), now), min)
    return _largest(least)


def _largest(least: dict[tuple[str, int], Resources]) -> dict[str, Resources]:
    largest: dict[str, Resources] = {}
    for (role, _), resources in least.items():
        largest[role] = resources.combined(largest.get(role, resources), max)
    return largest


def all_ended(processes: list[psutil.Process]) -> bool:
    """Whether none of the processes is alive."""
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def private_bytes(process: psutil.Process) -> int:
    """Returns the resident memory without files, in bytes: heap, stacks, shared memory (memfd).

    This is Linux's VmRSS less RssFile (proc(5)). smaps_rollup has shared memory only as Pss_Shmem,
    which counts half where a worker maps it too.
    """
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
