"""Where an executor's agent has its files: one socket per executor JVM, in the user's directory.

An agent that imports a user's module for tokens serves one session of Spark alone. In Spark Connect
two users may each have sent a module of the same name, and one process imports only one of them.
The same holds for files that options name by relative paths. Each session has its own directory.

All workers of one executor have the same JVM as an ancestor, in whatever daemon or process group
they are. The JVM's pid and start time, the boot id and the pid namespace name the agent. A Unix
socket's path has at most 107 bytes. Cluster managers' local directories have longer paths, so the
socket does not lie there.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kfetch._version import __version__
from kfetch.errors import AgentError
from kfetch.storage.processes import process_stat

_RUNTIME_DIRECTORIES = ("/tmp", "/run/user/{uid}")  # noqa: S108 - checked below
"""Without XDG_RUNTIME_DIR, and what systemd sets it to (pam_systemd(8))."""
_PATH_BYTES_MAX = 107  # sockaddr_un.sun_path, less its closing zero (unix(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """An agent's owner. The agent serves it, the executor's JVM, and ends with it."""

    pid: int
    started: int
    """Start time in clock ticks since boot. It tells two processes with the same pid apart."""

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return process_stat(self.pid).started == self.started

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Returns the process that has this pid now."""
        return cls(pid=pid, started=process_stat(pid).started)

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """Returns the process that ``PID:START`` names. Raises ValueError."""
        pid, started = text.split(":")
        return cls(pid=int(pid), started=int(started))

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFiles:
    """The files of one agent."""

    socket: Path
    lock: Path
    """Locked while an agent starts and lives, so that many workers start only one."""
    log: Path


def find_owner() -> ProcessIdentity:
    """Returns the nearest ancestor that is a JVM; outside Spark, the parent process.

    Raises AgentError if the executor has ended: then pid 1 is the parent, and it never ends.
    """
    parent = pid = os.getppid()
    while pid > 0:  # in a container, pid 1 may be the executor
        stat = process_stat(pid)
        if stat.name == "java":
            return ProcessIdentity(pid=pid, started=stat.started)
        pid = stat.parent
    if parent <= 1:
        raise AgentError("the executor of this worker has ended, so the worker gets no agent")
    return ProcessIdentity.of(parent)


def files_of(owner: ProcessIdentity, session: str = "") -> AgentFiles:
    """Returns the paths of an owner's agent, and creates their directory.

    ``session``: for an agent that serves only this session of Spark. Raises AgentError if other
    users can enter the directory, or if its path is too long.
    """
    directory = user_directory()
    name = _name(owner, session)
    files = AgentFiles(
        socket=directory / f"{name}.sock",
        lock=directory / f"{name}.lock",
        log=directory / f"{name}.log",
    )
    if len(os.fsencode(files.socket)) > _PATH_BYTES_MAX:
        raise AgentError(
            f"{files.socket} is too long for a Unix socket",
            action="point XDG_RUNTIME_DIR to a short path",
            file=str(files.socket),
        )
    return files


def user_directory() -> Path:
    """Returns the user's directory for agents, and creates it with mode 0700 if it is missing.

    Raises AgentError if it can't be made, if it belongs to another user, or if others may have
    written to it.
    """
    directory = _runtime_directory() / f"kfetch-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        private = _make_private(directory)
    except OSError as cause:
        raise AgentError(
            f"{directory} can't be made ({cause.strerror})",
            action="point XDG_RUNTIME_DIR to a directory that this user can write",
            file=str(directory),
        ) from None
    if not private:
        raise AgentError(
            f"{directory} must be a directory of this user alone (mode 0700)",
            action="remove it, or point XDG_RUNTIME_DIR elsewhere",
            file=str(directory),
        )
    return directory


def user_directories() -> list[Path]:
    """Returns all directories in which this user's processes may have agents, the own one first.

    A login shell has XDG_RUNTIME_DIR, while cron and services have not. Raises AgentError as
    ``user_directory`` does.
    """
    found = [user_directory()]
    for runtime in _RUNTIME_DIRECTORIES:
        directory = Path(runtime.format(uid=os.getuid()), found[0].name)
        with suppress(OSError):
            if directory not in found and _make_private(directory):
                found.append(directory)
    return found


def _make_private(directory: Path) -> bool:
    """Takes the permission to enter a directory from others. Returns whether that makes it private.

    It does not if the directory is not this user's, or if others may have written to it. An earlier
    release cached compiled code in the same directory, with mode 0755. With the setgid bit of its
    parent, as in volumes of Kubernetes, it is private too.
    """
    status = directory.lstat()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not is_own or status.st_mode & 0o022:
        return False
    if stat.S_IMODE(status.st_mode) != 0o700:
        directory.chmod(0o700)
    return True


def _runtime_directory() -> Path:
    """Returns XDG_RUNTIME_DIR if it can be used, or /tmp.

    Under su, cron and in containers the variable may name a missing directory or another user's.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isdir(runtime) and os.access(runtime, os.W_OK | os.X_OK)
    return Path(runtime if usable else _RUNTIME_DIRECTORIES[0])


def _name(owner: ProcessIdentity, session: str) -> str:
    # With the version: after an update of the package the executor gets an agent of that version.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/pid")
    identity = f"{boot} {namespace} {owner.pid} {owner.started} {__version__} {session}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
