"""Describes the platform: versions, limits of memory, and whether an agent can run here.

    from kfetch.admin import platform
    print(platform.describe())              # this process
    print(platform.on_executors(spark))     # each executor that got a task

``on_executors`` uses no SparkContext, so it works with Spark Connect and in shared clusters.
"""

from __future__ import annotations

import json
import os
import platform as system
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch._version import __version__
from kfetch.errors import KfetchError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Platform", "describe", "on_executors"]

_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "llvmlite", "pandas")
_TIMEOUT_S = 20.0
_TASKS = 16
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_AGENT_BYTES = 400 << 20
"""The agent's default budget of 256 MiB, and its code, rounded up (docs/how-to/memory.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One process's machine, as ``kfetch check`` prints it. Sizes are in bytes; 0 is unknown."""

    host: str = ""
    system: str = ""
    """The operating system and the kind of CPU."""
    cpus: int = 0
    """Processors that this process may use."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of kfetch, Python, Java and packages. A package that is not installed is missing."""
    memory_limit: int = 0
    """The limit of the cgroup, or the lowest one of those above it."""
    memory_used: int = 0
    """What the cgroup of the limit uses now. The kernel's cache of files counts, too."""
    shared_memory: int = 0
    """Free bytes in /dev/shm. The agent's shared memory is memfd's, which does not count there."""
    agent: str = ""
    """Where fetch sessions live at the default of ``kfetch.agent``: ``process`` or ``inline``."""
    problems: tuple[str, ...] = ()
    """Why no agent can run here. Empty if it can."""
    warnings: tuple[str, ...] = ()
    """What may go wrong."""

    @property
    def advice(self) -> str:
        """What to set so that queries run here; empty if the defaults do."""
        return "set kfetch.agent=inline" if self.agent == "process" and self.problems else ""


def describe() -> Platform:
    """Describe this process's machine. It starts Java and a Python for a moment."""
    linux = sys.platform == "linux"
    limit, used = _memory()
    return Platform(
        host=socket.gethostname(),
        system=f"{system.system()} {system.release()}, {system.machine()}",
        cpus=len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1,
        versions=_versions(),
        memory_limit=limit,
        memory_used=used,
        shared_memory=_free_bytes("/dev/shm"),  # noqa: S108
        agent="process" if linux else "inline",
        problems=tuple(_problems()) if linux else ("the agent needs Linux",),
        warnings=tuple(_warnings()),
    )


def _versions() -> dict[str, str]:
    versions = {"kfetch": __version__, "python": system.python_version(), "java": _java()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # clusters that bring their own pyspark
            versions[name] = str(getattr(sys.modules.get(name), "__version__", ""))
    return {name: version for name, version in versions.items() if version}


def _java() -> str:
    """The version that ``java`` prints (JDK documentation, ``java -version``); empty without it."""
    home = os.environ.get("JAVA_HOME", "")
    program = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else ""


def _memory() -> tuple[int, int]:
    """The lowest limit of this process's cgroups, and what the cgroup of the limit uses; 0: none.

    A cgroup keeps the limits of all above it (Linux, cgroup-v2.rst and cgroup-v1/memory.rst).
    """
    found = [
        *((_bytes(one / "memory.max"), _bytes(one / "memory.current")) for one in _own_cgroups()),
        (
            _bytes(_CGROUP / "memory/memory.limit_in_bytes"),
            _bytes(_CGROUP / "memory/memory.usage_in_bytes"),
        ),
    ]
    limited = [pair for pair in found if pair[0]]
    # Without a limit, the first cgroup that tells what it uses is this process's own.
    return min(limited) if limited else next((pair for pair in found if pair[1]), (0, 0))


def _bytes(file: Path) -> int:
    """A number of a cgroup; 0 for no limit or no file."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    # Version 1 writes the largest number of pages for no limit.
    return int(text) if text.isdigit() and int(text) < 1 << 60 else 0


def _own_cgroups() -> Iterator[Path]:
    """The cgroup that /proc names, and those above it. In a container it is often the root."""
    try:
        lines = _OWN_CGROUP.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("0::/"):
            own = _CGROUP / line.removeprefix("0::/")
            yield from (one for one in (own, *own.parents) if one.is_relative_to(_CGROUP))
            return
    yield _CGROUP


def _free_bytes(directory: str) -> int:
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return 0


def _problems() -> Iterator[str]:
    """Yields why no agent can run. Each probe does what the agent or its worker does."""
    probes: tuple[tuple[str, Callable[[], None]], ...] = (
        ("no process can be started", _start_process),
        ("processes can't be watched (pidfd_open)", lambda: os.close(os.pidfd_open(os.getpid()))),
        ("no Unix socket can be used", _use_socket),
        ("no shared memory can be made (memfd_create)", _make_memory),
        ("/proc can't be read", _read_proc),
    )
    for sentence, probe in probes:
        try:
            probe()
        except (OSError, subprocess.SubprocessError, AttributeError, KfetchError) as cause:
            yield f"{sentence}: {' '.join(str(cause).split())}"
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit not in (resource.RLIM_INFINITY, -1) and limit < _AGENT_BYTES:
        yield (
            f"the address space is limited to {limit >> 20} MiB (spark.executor.pyspark.memory), "
            f"and an agent needs {_AGENT_BYTES >> 20} MiB"
        )


def _start_process() -> None:
    subprocess.run(
        [sys.executable, "-P", "-c", ""],
        check=True,
        timeout=_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _use_socket() -> None:
    """Bind, connect, and ask who is at the other end, in the directory of the agents' sockets."""
    from kfetch.agent.channel import peer_pid
    from kfetch.agent.home import user_directory

    path = user_directory() / f"check-{os.getpid()}.sock"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
    ):
        try:
            listener.bind(str(path))
            listener.listen(1)
            client.connect(str(path))
            peer_pid(client)
        finally:
            path.unlink(missing_ok=True)


def _make_memory() -> None:
    import mmap

    descriptor = os.memfd_create("kfetch-check")
    try:
        os.ftruncate(descriptor, 1 << 20)
        with mmap.mmap(descriptor, 1 << 20) as memory:
            memory[:6] = b"kfetch"
    finally:
        os.close(descriptor)


def _read_proc() -> None:
    Path("/proc/self/stat").read_text()
    Path("/proc/sys/kernel/random/boot_id").read_text()
    os.readlink("/proc/self/ns/pid")


def _warnings() -> Iterator[str]:
    limit, _ = _memory()
    if 0 < limit < 4 * _AGENT_BYTES:
        yield (
            f"the memory limit of {limit >> 20} MiB holds Spark and up to {_AGENT_BYTES >> 20} MiB "
            "of an agent: lower kfetch.agent.memory, or raise spark.executor.memoryOverhead"
        )
    if not _decoder_is_compiled():
        yield "the decoder is not compiled yet, so the first read waits for it: kfetch warm"


def _decoder_is_compiled() -> bool:
    from kfetch.admin import decoder

    try:
        return decoder.state().compiled
    except Exception:  # a broken llvmlite raises errors of any type
        return False


def on_executors(spark: Any, tasks: int = _TASKS) -> list[Platform]:
    """Returns the platform of each executor that gets one of ``tasks`` tasks, by host.

    Executors with the same host and versions are one, with the problems of one that has any.
    ``spark`` is a session, also of Spark Connect. The executors need kfetch. Raises Spark's error
    if a task fails.
    """
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(_described, "text STRING")
    all_found = [from_json(json.loads(row.text)) for row in frame.collect()]
    all_found.sort(key=lambda one: len(one.problems))  # the last one stays
    found = {_identity(one): one for one in all_found}
    return [one for _, one in sorted(found.items())]


def _identity(one: Platform) -> tuple[str, str, str]:
    return one.host, one.system, json.dumps(one.versions)


def _described(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a task: a row with the platform as JSON."""
    import pyarrow as pa

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"text": [_text()]})


@cache
def _text() -> str:
    """The platform of this worker as JSON. The next tasks of the worker need no second look."""
    return json.dumps(asdict(describe()))


def from_json(document: dict[str, Any]) -> Platform:
    """Returns the platform that ``dataclasses.asdict`` made a document of.

    Executors may have another release of kfetch. Its own fields are left out, and those that it
    does not have are 0 or empty.
    """
    known = {one.name: document[one.name] for one in fields(Platform) if one.name in document}
    texts = {name: tuple(document.get(name, ())) for name in ("problems", "warnings")}
    return Platform(**{**known, **texts})
