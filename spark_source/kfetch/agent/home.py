"""Where an executor's agent is found: one socket per executor JVM, in a directory of the user's.

Workers of one executor share a JVM ancestor, whatever daemon or process group they are in; its pid
and start time, with the boot and the pid namespace, name the agent. A Unix socket's path has at
most 107 bytes, so it never lies under a cluster manager's long local directories.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kfetch._version import __version__
from kfetch.errors import AgentError

_PATH_BYTES_MAX = 107  # sockaddr_un.sun_path, less its closing zero (unix(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process: the one that an agent serves and does not outlive (the executor's JVM), or the
    agent itself."""

    pid: int
    started: int
    """Start time in clock ticks since boot: a pid that is used again is another process."""

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return _stat(self.pid)[1] == self.started

    @classmethod
    def of(cls, pid: int) -> Owner:
        """The process that has this pid now."""
        return cls(pid=pid, started=_stat(pid)[1])

    @classmethod
    def parse(cls, text: str) -> Owner:
        """From ``PID:START``; raises ValueError."""
        pid, started = text.split(":")
        return cls(pid=int(pid), started=int(started))

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The files of one agent."""

    socket: Path
    lock: Path
    """Held while an agent is started, so that many workers start one."""
    log: Path
    process: Path
    """Pid and start time of the agent that was started last."""


def find_owner() -> Owner:
    """The nearest ancestor that is a JVM; outside of Spark, the parent process."""
    pid = parent = os.getppid()
    while pid > 1:
        above, started, name = _stat(pid)
        if name == "java":
            return Owner(pid=pid, started=started)
        pid = above
    return Owner.of(parent)


def home_of(owner: Owner) -> Home:
    """The files of an owner's agent. Makes the directory; refuses one that others can enter."""
    directory = user_directory()
    name = _key(owner)
    home = Home(
        socket=directory / f"{name}.sock",
        lock=directory / f"{name}.lock",
        log=directory / f"{name}.log",
        process=directory / f"{name}.pid",
    )
    if len(os.fsencode(home.socket)) > _PATH_BYTES_MAX:
        raise AgentError(
            f"{home.socket} is too long for a Unix socket",
            action="point XDG_RUNTIME_DIR to a short path",
            file=str(home.socket),
        )
    return home


def user_directory() -> Path:
    """The user's directory for sockets, mode 0700, made when it is missing."""
    directory = _runtime_directory() / f"kfetch-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    if not private or found.st_uid != os.getuid():
        raise AgentError(
            f"{directory} must be a directory of this user alone (mode 0700)",
            action="remove it, or point XDG_RUNTIME_DIR elsewhere",
            file=str(directory),
        )
    return directory


def _runtime_directory() -> Path:
    """XDG_RUNTIME_DIR, or /tmp: su, cron and containers inherit one that is missing, or another
    user's."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isdir(given) and os.access(given, os.W_OK | os.X_OK)
    return Path(given if usable else "/tmp")  # noqa: S108 - the directory in it is checked


def _key(owner: Owner) -> str:
    # The version too: an executor whose package was replaced gets an agent that speaks it.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/pid")
    told = f"{boot} {namespace} {owner.pid} {owner.started} {__version__}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _stat(pid: int) -> tuple[int, int, str]:
    """Parent pid, start time and name of a process; zeros if it is gone (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, 0, ""
    # The name is in parentheses and may itself hold spaces and parentheses.
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), int(fields[19]), name
