"""Finds out which directory's Kafka uses a port of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil

from kfetch_jobs.errors import StateDamaged
from kfetch_jobs.kafka.settings import LOGS_PROPERTY
from kfetch_jobs.kafka.state import load

__all__ = ["directory_using_port"]


def directory_using_port(port: int) -> Path | None:
    """Returns the directory of a running kfetch broker with this port; None for other processes.

    kfetch marks the command line of its brokers. The directory's state file must confirm process
    and port. Only root may ask the system which process listens on a port.
    """
    for process in psutil.process_iter():
        try:
            directory = _directory(process.cmdline())
            if directory is not None and _uses(directory, process.pid, port):
                return directory
        except (psutil.Error, StateDamaged, OSError):
            continue  # the process has ended, or belongs to another user
    return None


def _directory(command: Sequence[str]) -> Path | None:
    mark = f"-D{LOGS_PROPERTY}="
    logs = next((word.removeprefix(mark) for word in command if word.startswith(mark)), None)
    return Path(logs).parent.parent if logs else None  # the value is DIRECTORY/node-1/logs


def _uses(directory: Path, pid: int, port: int) -> bool:
    state = load(directory)
    nodes = state.nodes if state else ()
    return any(node.pid == pid and port in (node.port, node.controller_port) for node in nodes)
