"""Which processes live, and the end of a process with its lease, also while it is stopped."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.agent.home import ProcessIdentity
from kfetch.storage import processes
from kfetch.storage.lease import Life
from kfetch.storage.processes import die_with_parent, life_of, process_stat, this_process

_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such timers")


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has written its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"


def test_this_process() -> None:
    """It lives, and each lease of it has an id of its own."""
    one, other = this_process("a test"), this_process("a test")
    assert Life.ALIVE is life_of(one)
    assert (os.getpid(), True) == (one.pid, one.id != other.id)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such files")
@pytest.mark.parametrize("name", ["plain", "with space", "a) (b", ")", "python-grün-für"])
def test_process_names_may_contain_anything(name: str, tmp_path: Path) -> None:
    """The name in /proc/PID/stat ends at the last parenthesis. The kernel cuts it after 15 bytes,
    also inside a letter: the process still counts as alive."""
    link = tmp_path / name
    link.symlink_to("/bin/sleep")
    process = subprocess.Popen([link, "30"])
    try:
        # The kernel shows the new name once exec is done, which Popen waits for.
        stat = process_stat(process.pid)
        identity = ProcessIdentity.of(process.pid)
        holder = replace(this_process("a test"), pid=process.pid, started=str(stat.started))
        assert (True, Life.ALIVE) == (identity.alive, life_of(holder))
    finally:
        process.kill()
        process.wait()

    shown = name.encode()[:15].decode(errors="replace")
    assert (os.getpid(), shown) == (stat.parent, stat.name)
    assert stat.started > 0
    assert 0 == process_stat(process.pid).started


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_another_process(number: signal.Signals) -> None:
    """It lives while it is stopped, and is dead before its parent has asked for its exit code."""
    with running(WAITS) as process:
        holder = replace(
            this_process("a test"), pid=process.pid, started=processes._started(process.pid)
        )
        assert Life.ALIVE is life_of(holder)
        process.send_signal(number)
        if number is signal.SIGSTOP:
            assert Life.ALIVE is life_of(holder)
        else:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert Life.DEAD is life_of(holder)


def test_a_process_with_a_reused_id() -> None:
    """The time of its start tells it from the holder."""
    holder = replace(this_process("a test"), started="1")
    assert Life.DEAD is life_of(holder)


@_LINUX
def test_a_process_that_proc_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid, /proc shows no processes of other users. A holder among them may live."""

    def forbidden(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with running(WAITS) as process:
        holder = replace(this_process("a test"), pid=process.pid)
    monkeypatch.setattr(os, "kill", forbidden)
    assert Life.UNKNOWN is life_of(holder)
    monkeypatch.undo()
    assert Life.DEAD is life_of(holder)


def test_a_process_elsewhere() -> None:
    """Nobody here knows whether it lives."""
    here = this_process("a test")
    for one in (replace(here, machine="2"), replace(here, machine=""), replace(here, started="")):
        assert Life.UNKNOWN is life_of(one)


_ENDS = """
import sys, time
from kfetch.storage.processes import {timer}
timer = {timer}{arguments}
timer.end_in(60)
timer.end_in({seconds})
print("ready", flush=True)
sys.stdin.read()
"""


@_LINUX
@pytest.mark.parametrize("suspends", [True, False])
def test_the_kernel_ends_a_stopped_process(suspends: bool) -> None:
    """It never wakes: it is dead before anybody continues it."""
    program = _ENDS.format(timer="KernelTimer", arguments=f"(suspends={suspends})", seconds=0.5)
    with running(program) as process:
        process.send_signal(signal.SIGSTOP)
        assert -signal.SIGKILL == process.wait(60)


_FIRST = """
import os, signal, subprocess, sys, time
from kfetch.storage.processes import KernelTimer, run_as_child
run_as_child()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
subprocess.Popen(["sh", "-c", "sleep 0.01 &"]).wait()
{}
time.sleep(50)
"""


@_LINUX
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("KernelTimer(suspends=False).end_in(0.1)", 128 + signal.SIGKILL),
        ("os.kill(1, signal.SIGTERM)", 3),
        ("sys.exit(7)", 7),
    ],
)
def test_the_first_process_of_a_container(line: str, code: int) -> None:
    """The kernel protects it from its own SIGKILL, so it leaves the work to a child. It passes on
    signals and ends as its child has ended."""
    first = ["unshare", "-Urpf", "--kill-child", sys.executable, "-c", _FIRST.format(line)]
    if subprocess.run([*first[:3], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user can make no namespace of processes")
    assert code == subprocess.run(first, timeout=20, check=False).returncode


def test_a_thread_ends_the_process() -> None:
    """Where the kernel has no such timer, a thread does it."""
    with running(_ENDS.format(timer="ThreadTimer", arguments="()", seconds=0.5)) as process:
        assert -signal.SIGKILL == process.wait(60)


_LIVES = """
import sys, time
from kfetch.storage.processes import KernelTimer, ThreadTimer
for timer in (KernelTimer(suspends=False), ThreadTimer()):
    timer.end_in(0.2)
    timer.close()
time.sleep(0.5)
print("alive", flush=True)
"""


@_LINUX
def test_a_closed_timer() -> None:
    """The process lives on."""
    with running(_LIVES) as process:
        assert 0 == process.wait(60)


_PARENT = """
import os, signal, subprocess, sys
from kfetch.storage.processes import die_with_parent
child = subprocess.Popen(["sleep", "60"], preexec_fn=die_with_parent())
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
sys.stdin.read()
"""


@_LINUX
def test_a_stopped_child_dies_with_its_parent() -> None:
    """The JVM of a run that was killed does not outlive it, even if it is stopped."""
    with running(_PARENT.replace("print(child.pid", "print('x', child.pid")) as process:
        assert process.stdout is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [child] = map(int, children)
        descriptor = os.pidfd_open(child)
        try:
            process.kill()
            process.wait(60)
            assert select.select([descriptor], [], [], 20)[0]
        finally:
            os.close(descriptor)


def test_where_there_is_no_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a process comes from ps, and nothing is asked of the kernel."""
    monkeypatch.setattr(processes, "_IS_LINUX", False)
    monkeypatch.setattr(processes, "_machine", lambda: "boot 1")
    assert Life.ALIVE is life_of(this_process("a test"))
    assert die_with_parent()() is None  # type: ignore[func-returns-value]
