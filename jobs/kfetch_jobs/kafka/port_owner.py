"""Kafka in other directories of this machine: whose is a port?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil

from kfetch_jobs.errors import StateDamaged
from kfetch_jobs.kafka.settings import LOGS_PROPERTY
from kfetch_jobs.kafka.state import load

__all__ = ["directory_using_port"]


def directory_using_port(port: int) -> Path | None:
    """The directory of the running Kafka of ours that has a port; None: it is somebody else's.

    Found by our mark in a process's command line, and believed if the directory's state says the
    same of process and port. Which process listens on a port, systems tell root alone.
    """
    for process in psutil.process_iter():
        try:
            directory = _directory(process.cmdline())
            if directory is not None and _has(directory, process.pid, port):
                return directory
        except (psutil.Error, StateDamaged, OSError):
            continue  # it has ended, or is another user's
    return None


def _directory(command: Sequence[str]) -> Path | None:
    mark = f"-D{LOGS_PROPERTY}="
    logs = next((word.removeprefix(mark) for word in command if word.startswith(mark)), None)
    return Path(logs).parent.parent if logs else None  # it is DIRECTORY/node-1/logs


def _has(directory: Path, pid: int, port: int) -> bool:
    found = load(directory)
    nodes = found.nodes if found else ()
    return any(node.pid == pid and port in (node.port, node.controller_port) for node in nodes)
