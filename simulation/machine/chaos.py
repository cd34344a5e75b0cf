"""What may happen on a machine. Each action gets the run and numbers between 0 and 1.

An action that has nothing to act on does nothing. It returns a sentence for the story, or "".
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from kfetch.admin import agents
from kfetch.errors import AgentError
from simulation.machine.executor import TOPIC, ExecutorRun, Trap
from simulation.machine.machine import OsProcess

if TYPE_CHECKING:
    from simulation.kernel import Process

T = TypeVar("T")
Numbers = tuple[float, ...]

_FREEZE_S = (0.5, 4.0, 12.0, 20.0, 100.0)
_CALLS: dict[str, Sequence[str]] = {
    "agent": (
        *("", "exec", "fcntl", "unlink", "socket", "bind", "stat", "listen", "alarm", "accept"),
        *("send", "recv", "memfd_create", "ftruncate", "mmap", "close", "pidfd_open", "poll"),
    ),
    "worker": (
        *("", "open", "flock", "fstat", "popen", "fork", "unlink", "socket", "connect", "send"),
        *("recv", "close", "mmap", "waitpid", "readdir", "pidfd_open", "pidfd_send_signal"),
    ),
}


def pick(options: Sequence[T], number: float) -> T | None:
    """Returns the option that a number between 0 and 1 chooses."""
    return options[min(len(options) - 1, int(number * len(options)))] if options else None


def _agent(run: ExecutorRun, number: float) -> OsProcess | None:
    return pick(run.living_agents(), number)


def _worker(run: ExecutorRun, number: float) -> OsProcess | None:
    return pick([worker.machine_process for worker in run.workers()], number)


def kill_agent(run: ExecutorRun, numbers: Numbers) -> str:
    """An agent is killed."""
    return _kill(_agent(run, numbers[0]))


def kill_worker(run: ExecutorRun, numbers: Numbers) -> str:
    """A worker is killed."""
    return _kill(_worker(run, numbers[0]))


def kill_jvm(run: ExecutorRun, numbers: Numbers) -> str:
    """An executor's JVM is killed."""
    executor = pick([one for one in run.executors if one.alive], numbers[0])
    return _kill(executor.jvm if executor else None)


def _kill(process: OsProcess | None) -> str:
    if process is None:
        return ""
    process.send_signal(signal.SIGKILL)
    return f"{process} is killed"


def kill_pair(run: ExecutorRun, numbers: Numbers) -> str:
    """A worker and an agent are killed at once."""
    first, second = kill_worker(run, numbers), kill_agent(run, numbers[1:])
    return ", and ".join(filter(None, (first, second)))


def kill_at_call(run: ExecutorRun, numbers: Numbers) -> str:
    """The next process of a role that makes a system call is killed there."""
    return _trap(run, numbers, 0.0)


def freeze_at_call(run: ExecutorRun, numbers: Numbers) -> str:
    """The next process of a role that makes a system call stops there for a while."""
    return _trap(run, numbers, pick(_FREEZE_S, numbers[3]) or 1.0)


def _trap(run: ExecutorRun, numbers: Numbers, freeze_s: float) -> str:
    role = "agent" if numbers[0] < 0.6 else "worker"
    call = pick(_CALLS[role], numbers[1]) or ""
    run.traps.append(Trap(role, call, int(numbers[2] ** 2 * 6), freeze_s))
    return ""


def freeze_agent(run: ExecutorRun, numbers: Numbers) -> str:
    """An agent stops for a while (SIGSTOP)."""
    return _freeze(run, _agent(run, numbers[0]), numbers[1])


def freeze_worker(run: ExecutorRun, numbers: Numbers) -> str:
    """A worker stops for a while (SIGSTOP)."""
    return _freeze(run, _worker(run, numbers[0]), numbers[1])


def _freeze(run: ExecutorRun, process: OsProcess | None, number: float) -> str:
    if process is None:
        return ""
    seconds = pick(_FREEZE_S, number) or 1.0
    run.stop(process)
    run.kernel.after(seconds, run.wake, process)
    return f"{process} stops for {seconds:g} s"


def ask_to_leave(run: ExecutorRun, numbers: Numbers) -> str:
    """An agent gets SIGTERM."""
    agent = _agent(run, numbers[0])
    if agent is None:
        return ""
    agent.send_signal(signal.SIGTERM)
    return f"{agent} gets SIGTERM"


def fill_disk(run: ExecutorRun, numbers: Numbers) -> str:
    """The disk is full for a while; sometimes it takes no new file either."""
    tree = run.machine.tree
    tree.full, tree.no_inodes = True, numbers[0] < 0.5
    run.kernel.after(1 + numbers[1] * 60, _free_disk, run)
    return "the disk is full"


def _free_disk(run: ExecutorRun) -> None:
    run.machine.tree.full = run.machine.tree.no_inodes = False
    run.fault("the disk has room")


def few_descriptors(run: ExecutorRun, numbers: Numbers) -> str:
    """A process gets no more descriptors for a while, or only a few."""
    process = (_agent if numbers[0] < 0.5 else _worker)(run, numbers[1])
    if process is None:
        return ""
    limit = len(process.descriptors) + int(numbers[2] * 4)
    process.limits[run.machine.nofile] = (limit, limit)
    run.kernel.after(1 + numbers[3] * 60, _free_descriptors, run, process)
    return f"{process} gets {limit} descriptors"


def _free_descriptors(run: ExecutorRun, process: OsProcess) -> None:
    process.limits[run.machine.nofile] = (4096, 4096)
    run.fault(f"{process} gets descriptors again")


def no_threads(run: ExecutorRun, numbers: Numbers) -> str:
    """An agent can't start threads for a while."""
    agent = _agent(run, numbers[0])
    if agent is None:
        return ""
    agent.process.globals["threading", "refuse"] = RuntimeError("can't start new thread")
    run.kernel.after(1 + numbers[1] * 60, _free_threads, run, agent.process)
    return f"{agent} gets no threads"


def _free_threads(run: ExecutorRun, process: Process) -> None:
    process.globals.pop(("threading", "refuse"), None)
    run.fault(f"{process} gets threads again")


def no_processes(run: ExecutorRun, numbers: Numbers) -> str:
    """Nobody can fork for a while."""
    run.machine.no_processes = True
    run.kernel.after(1 + numbers[1] * 30, _free_processes, run)
    return "nobody can fork"


def _free_processes(run: ExecutorRun) -> None:
    run.machine.no_processes = False
    run.fault("processes can fork again")


def _remove(run: ExecutorRun, number: float, kinds: tuple[str, ...]) -> str:
    paths = [path for path, _ in run.machine.tree.walk() if path.endswith(kinds)]
    path = pick(paths, number)
    if path is None:
        return ""
    run.machine.tree.unlink(path)
    return f"somebody removes {path}"


def remove_socket(run: ExecutorRun, numbers: Numbers) -> str:
    """Somebody removes a socket's file."""
    return _remove(run, numbers[0], (".sock",))


def remove_lock(run: ExecutorRun, numbers: Numbers) -> str:
    """Somebody removes a lock's file."""
    run.locks_removed = True
    return _remove(run, numbers[0], (".lock",))


def clean_files(run: ExecutorRun, numbers: Numbers) -> str:
    """Somebody cleans /tmp: all files of agents are gone."""
    run.locks_removed = True
    paths = [path for path, _ in run.machine.tree.walk()]
    for path in paths:
        run.machine.tree.unlink(path)
    return "somebody cleans /tmp" if paths else ""


def clean_while_stopped(run: ExecutorRun, numbers: Numbers) -> str:
    """Somebody cleans /tmp while an agent is stopped."""
    stopped = freeze_agent(run, numbers)
    if stopped:
        run.kernel.after(numbers[2] * 3, _clean_later, run)
    return stopped


def _clean_later(run: ExecutorRun) -> None:
    run.fault(clean_files(run, ()))


def step_clock(run: ExecutorRun, numbers: Numbers) -> str:
    """Somebody sets the clock on the wall."""
    seconds = (numbers[0] - 0.5) * (60 if numbers[1] < 0.5 else 60 * 86400)
    run.kernel.wall_offset += seconds
    return f"the clock steps by {seconds:.0f} s"


def slow_start(run: ExecutorRun, numbers: Numbers) -> str:
    """Programs start slowly for a while."""
    run.slow_start_s = pick((1.0, 15.0, 55.0, 90.0), numbers[0]) or 1.0
    run.kernel.after(5 + numbers[1] * 60, _start_fast, run)
    return f"programs take {run.slow_start_s:g} s to start"


def _start_fast(run: ExecutorRun) -> None:
    run.slow_start_s = 0.0
    run.fault("programs start fast again")


def hang_broker(run: ExecutorRun, numbers: Numbers) -> str:
    """A broker answers nothing for a while."""
    number = pick(list(run.network.links), numbers[0]) or 1
    run.network.hang(number, True)
    run.kernel.after(1 + numbers[1] * 15, _let_answer, run, number)
    return f"broker {number} hangs"


def _let_answer(run: ExecutorRun, number: int) -> None:
    run.network.hang(number, False)
    run.fault(f"broker {number} answers again")


def elect(run: ExecutorRun, numbers: Numbers) -> str:
    """Another broker leads a partition."""
    partition = int(numbers[0] * len(run.cluster.image.topics[TOPIC].partitions))
    run.cluster.elect(TOPIC, partition, run.kernel.now * 1000)
    return f"partition {partition} has another leader"


def ask_status(run: ExecutorRun, numbers: Numbers) -> str:
    """A person asks all agents for their status."""
    tool = run.machine.adopt(run.kernel.spawn("tool"), run.machine.init, "python3")
    tool.process.start(_find_agents)
    return ""


def _find_agents() -> None:
    with suppress(AgentError):  # a full disk: their directory can't be made
        agents.find()


ACTS: dict[str, Callable[[ExecutorRun, Numbers], str]] = {
    act.__name__: act
    for act in (
        kill_agent,
        kill_worker,
        kill_jvm,
        kill_pair,
        kill_at_call,
        freeze_at_call,
        freeze_agent,
        freeze_worker,
        ask_to_leave,
        fill_disk,
        few_descriptors,
        no_threads,
        no_processes,
        remove_socket,
        remove_lock,
        clean_files,
        clean_while_stopped,
        step_clock,
        slow_start,
        hang_broker,
        elect,
        ask_status,
    )
}
