"""Processes of this machine: who holds a lease, whether it lives, and its end with its lease.

``KernelTimer`` lets the kernel end this process at a time, with SIGKILL (timer_create(2)). The
kernel does so even while the process is stopped (SIGSTOP). So a process that could not renew its
lease never wakes after it. Only Linux has that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kfetch.storage.lease import Holder, Life

_IS_LINUX = sys.platform == "linux"


def this_process(purpose: str) -> Holder:
    """Returns this process as the holder of a new lease."""
    pid = os.getpid()
    return Holder(
        id=uuid.uuid4().hex,
        host=socket.gethostname(),
        machine=_machine(),
        pid=pid,
        started=_started(pid),
        purpose=purpose,
    )


def life_of(holder: Holder) -> Life:
    """Returns whether a holder lives. A container's processes are those of another machine."""
    if not holder.machine or not holder.started or holder.machine != _machine():
        return Life.UNKNOWN
    if _started(holder.pid) == holder.started:
        return Life.ALIVE
    return Life.UNKNOWN if _is_hidden(holder.pid) else Life.DEAD


def _machine() -> str:
    """The boot of this kernel and the namespace of its process ids; empty if it does not tell."""
    try:
        if _IS_LINUX:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')}"
        return _output("sysctl", "-n", "kern.bootsessionuuid")  # macOS
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process started, in its machine's own units; empty if it has ended."""
    try:
        if not _IS_LINUX:
            return _output("ps", "-o", "lstart=", "-p", str(pid))
        stat = process_stat(pid)
        return "" if stat.state in ("", "Z", "X") else str(stat.started)
    except OSError:
        return ""


class ProcessStat(NamedTuple):
    """A part of /proc/PID/stat (proc(5))."""

    name: str = ""
    """The first 15 bytes of the program's name."""
    state: str = ""
    parent: int = 0
    """The pid of the parent."""
    started: int = 0
    """In clock ticks since boot."""


def process_stat(pid: int) -> ProcessStat:
    """Returns what Linux tells of a process; empty texts and zeros if it has ended.

    Raises OSError if its file can't be read.
    """
    try:
        # The kernel cuts a long name, also inside a letter.
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ProcessStat()
    # The name stands in parentheses, and may contain spaces and parentheses.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return ProcessStat(name, fields[0], int(fields[1]), int(fields[19]))


def _is_hidden(pid: int) -> bool:
    """Whether a process of another user lives that /proc does not show (hidepid, proc(5))."""
    if not _IS_LINUX or Path(f"/proc/{pid}").exists():
        return False
    try:
        os.kill(pid, 0)
    except OSError as cause:
        return isinstance(cause, PermissionError)
    return False


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip()


def clock(*, suspends: bool) -> Callable[[], float]:
    """Returns a clock for leases, in seconds. If it ``suspends``, it stands still with the machine.

    Only files that no other machine can write are safe with a clock that stands still.
    """
    return time.monotonic if suspends else boottime


def boottime() -> float:
    """Returns seconds since this machine started, also those during which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _IS_LINUX else time.monotonic()


class _SignalEvent(ctypes.Structure):
    """sigevent(7), which has 64 bytes."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 48),
    ]


class _Times(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns")]


def process_end(*, suspends: bool) -> KernelTimer | ThreadTimer:
    """Returns what ends this process with its lease. ``suspends``: see ``clock``."""
    return KernelTimer(suspends=suspends) if _IS_LINUX else ThreadTimer()


class ThreadTimer:
    """Ends this process with SIGKILL at a time, if it is not stopped: a thread does it."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def end_in(self, seconds: float) -> None:
        """End the process in so many seconds, instead of at the time before."""
        self.close()
        self._timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """Let the process live."""
        if self._timer:
            self._timer.cancel()


class KernelTimer:
    """Ends this process with SIGKILL at a time, also if it is stopped: the kernel does it."""

    _SIGEV_SIGNAL = 0

    def __init__(self, *, suspends: bool) -> None:
        """``suspends``: see ``clock``. Raises OSError if the system has no such timer."""
        self._id = ctypes.c_void_p()
        event = _SignalEvent(signal=signal.SIGKILL, notify=self._SIGEV_SIGNAL)
        number = time.CLOCK_MONOTONIC if suspends else time.CLOCK_BOOTTIME
        self._call("timer_create", number, ctypes.byref(event), ctypes.byref(self._id))

    def end_in(self, seconds: float) -> None:
        """End the process in so many seconds, instead of at the time before."""
        nanoseconds = max(int(seconds * 1e9), 1)
        times = _Times(at_s=nanoseconds // 10**9, at_ns=nanoseconds % 10**9)
        self._call("timer_settime", self._id, 0, ctypes.byref(times), None)

    def close(self) -> None:
        """Let the process live."""
        self._call("timer_delete", self._id)

    @staticmethod
    def _call(name: str, *arguments: Any) -> None:
        if getattr(_libc(), name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    # Before glibc 2.34, timers were in a library of their own.
    return libc if hasattr(libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)


def run_as_child() -> None:
    """Go on in a child if this process is the first one of a container, its pid 1.

    The kernel protects pid 1 from signals of its own container, also from the SIGKILL of a timer.
    The first process passes signals on, reaps orphans, and ends with its child's exit code.
    """
    if os.getpid() != 1:
        return
    passed_on = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # until each has its handler
    if child := os.fork():
        for number in passed_on:
            signal.signal(number, lambda received, _: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if not child:
        os.setsid()  # else a terminal's Ctrl-C would come twice
        return
    ended, status = os.wait()
    while ended != child:
        ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


def die_with_parent() -> Callable[[], None]:
    """Returns what a child process calls before it executes its program.

    The kernel then ends the child as soon as the thread that has started it is dead (prctl(2)).
    Where there is no Linux, it does nothing.
    """
    if not _IS_LINUX:
        return lambda: None
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def ask_the_kernel() -> None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it has died before
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_the_kernel
