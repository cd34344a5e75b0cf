"""The processes of a query as its operator sees them: agents, Python workers, what they hold."""

from __future__ import annotations

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
        if "spark_source.agent" not in command:
            return None
        return int(command[command.index("--owner") + 1].split(":")[0])
    except (psutil.Error, ValueError, IndexError):  # it ends, or is not an agent of ours
        return None


def workers_of(root: psutil.Process) -> list[psutil.Process]:
    """Spark's Python processes below a process: daemons, their workers, the query's source."""
    return [process for process in root.children(recursive=True) if _is_worker(process)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return any(part.startswith("pyspark.") for part in command)


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
