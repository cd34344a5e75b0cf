"""A scenario on one machine: executors with their workers, and the agents that these start.

Each JVM has a daemon with workers. A worker reads splits by the product's own client, from a
simulated Kafka. The agents run as they are. ``chaos`` says what happens to them. ``run`` ends with
everything healed, all executors gone, and a check of what is left over.
"""

from __future__ import annotations

import gc
import json
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import kfetch.agent.client
from kfetch import decoding
from kfetch.agent.budget import Budget
from kfetch.errors import KfetchError
from kfetch.model import Broker, OffsetRange, Split, TopicPartition
from kfetch.spark import options as parsing
from simulation.cluster.cluster import Cluster
from simulation.history.budgets import broken
from simulation.kernel import Kernel, Process
from simulation.kernel.stand_ins import all_modules
from simulation.kernel.substitution import (
    ProcessGlobals,
    locks_of,
    modules_of,
    patched,
    substituted,
)
from simulation.machine.files import Inode
from simulation.machine.install import GLOBALS, agent_program, installed
from simulation.machine.machine import Machine, OsProcess
from simulation.machine.plan import Plan
from simulation.network import Network

Planted = Callable[["ExecutorRun"], Mapping[tuple[str, str], Any]]

READ_S_MAX = 400.0
"""A worker's read ends within so many seconds after the last thing that went wrong."""
_EXCUSE_S = 160.0
"""An error of a read is excused by what went wrong so long before. A start may take 75 s."""
_LOST_AGENTS = ("agents in a row", "ended at once with status")
"""Errors of reads whose agents somebody ends again and again, or while they start."""
_LOOK_S = 0.5
TOPIC = "t"
_LEAVE_S = 5.0
"""Two agents of one owner may overlap so long if somebody has removed the lock."""
_STEPS_A_SECOND_MAX = 60_000


class Violation(AssertionError):
    """Something that must hold does not."""


@dataclass
class Outcome:
    """How a run ended."""

    plan: Plan
    steps: int = 0
    seconds: float = 0.0
    reads: int = 0
    failed_reads: int = 0
    agents: int = 0
    violation: str = ""
    story: list[str] = field(default_factory=list)


class Worker:
    """A Python worker: it reads one split after the other."""

    def __init__(self, run: ExecutorRun, executor: Executor) -> None:
        self.run = run
        self.executor = executor
        process = run.kernel.spawn(f"worker-{run.kernel.next_number()}")
        self.machine_process = run.machine.adopt(process, executor.daemon, "python3")
        self.machine_process.reaps_children = False
        self.process: Process = process
        self.reading_since: float | None = None
        self.ranges: tuple[OffsetRange, ...] = ()
        self._main = process.start(self._work)

    def _work(self) -> None:
        run, chance = self.run, self.run.kernel.random
        while not run.stops and self.executor.alive:
            run.kernel.sleep(chance.random() ** 2 * run.plan.pause_s)
            self._read_next()

    def _read_next(self) -> None:
        run = self.run
        if run.stops:
            return
        split = run.split(self.executor.query)
        began = self.reading_since = run.kernel.now
        self.ranges = split.ranges
        positions = {item.tp.partition: item.start for item in split.ranges}
        ends = {item.tp.partition: item.end for item in split.ranges}
        try:
            for batch in kfetch.agent.client.read(split, run.options):
                _take(positions, ends, batch)
                self.reading_since = run.kernel.now
                run.kernel.sleep(run.kernel.random.random() ** 4 * run.plan.batch_s)
        except KfetchError as error:
            run.failed(self, began, error)
        else:
            run.reads += 1
            if positions != ends:
                raise Violation(f"{self.machine_process} read {positions} of {ends}")
        finally:
            self.reading_since = None


def _take(positions: dict[int, int], ends: dict[int, int], batch: Any) -> None:
    """Check that rows continue where those before them ended."""
    partitions = batch.column("partition").to_pylist()
    offsets = batch.column("offset").to_pylist()
    for partition, offset in zip(partitions, offsets, strict=True):
        if offset != positions[partition] or offset >= ends[partition]:
            raise Violation(
                f"a worker got offset {offset} of partition {partition} in place of "
                f"{positions[partition]}"
            )
        positions[partition] += 1


class Executor:
    """A JVM, its daemon and its workers."""

    def __init__(self, run: ExecutorRun, number: int) -> None:
        self.run = run
        self.query = f"query-{number % 2}"
        machine, kernel = run.machine, run.kernel
        self.jvm = machine.adopt(kernel.spawn(f"jvm-{number}"), machine.init, "java")
        self.jvm.limits[machine.nofile] = (4096, 4096)
        self.daemon = machine.adopt(kernel.spawn(f"daemon-{number}"), self.jvm, "python3")
        self.workers: list[Worker] = []
        self.jvm.process.on_end(self._jvm_ended)

    @property
    def alive(self) -> bool:
        """Whether its JVM runs."""
        return self.jvm.running

    def staff(self) -> None:
        """Start workers in place of those that have ended."""
        self.workers = [worker for worker in self.workers if worker.process.alive]
        while self.alive and len(self.workers) < self.run.plan.slots and not self.run.stops:
            self.workers.append(Worker(self.run, self))

    def _jvm_ended(self) -> None:
        # The daemon reads the end of its input, and ends its process group.
        self.run.kernel.after(self.run.kernel.random.random() * 2, self._end_group)

    def _end_group(self) -> None:
        for worker in self.workers:
            worker.machine_process.send_signal(signal.SIGKILL)
        self.daemon.send_signal(signal.SIGKILL)


class ExecutorRun:
    """One machine, and what happens on it."""

    def __init__(
        self, plan: Plan, acts: dict[str, Callable[..., str]], planted: Planted | None = None
    ) -> None:
        """``planted``: a fault of the product on purpose; see ``planted``."""
        self.plan = plan
        self._planted = planted
        self.kernel = Kernel(plan.seed)
        self.kernel.preempt = plan.preempt
        self.machine = Machine(self.kernel, programs={"kfetch.agent": agent_program})
        self.machine.slow_chance, self.machine.slow_s = plan.slow_chance, plan.slow_s
        self.machine.start_s = self._start_s
        self.machine.on_exec = self._agent_began
        self.machine.on_call = self._before_call
        self.machine.on_kill = self._before_kill
        self.machine.reuses_pids = plan.reuses_pids
        self.machine.tree.on_unlink = self._before_unlink
        self.machine.tell = self.tell
        self.cluster = Cluster(2, random.Random(plan.seed))
        self.network = Network(self.kernel, self.cluster)
        self.story: list[str] = []
        self.executors: list[Executor] = []
        self.agents: list[OsProcess] = []
        """Every agent that has begun, in order."""
        self.budgets: dict[OsProcess, Budget] = {}
        self.stopped: set[OsProcess] = set()
        """Processes that were stopped, for however long."""
        self.slow_start_s = 0.0
        self.stops = False
        self.reads = 0
        self.failed_reads = 0
        self.last_fault = -1e9
        """When something went wrong last; or when that ended."""
        self.locks_removed = False
        """Whether somebody has removed a lock: then nothing promises a single agent."""
        self.traps: list[Trap] = []
        self._acts = acts
        self._double_since: dict[str, float] = {}
        self._failure: Violation | None = None
        self._began = self._began_by = self.kernel.now

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        if text:
            self.story.append(f"{self.kernel.now - self._began:9.3f}  {text}")

    def fault(self, text: str) -> None:
        """Something goes wrong, or ends to."""
        self.last_fault = self.kernel.now
        self.tell(text)

    def stop(self, process: OsProcess) -> None:
        """Stop a process (SIGSTOP)."""
        self.stopped.add(process)
        process.send_signal(signal.SIGSTOP)

    def wake(self, process: OsProcess) -> None:
        """A stopped process goes on."""
        if process.running and process.process.frozen:
            process.send_signal(signal.SIGCONT)
            self.fault(f"{process} goes on")

    def violate(self, text: str) -> None:
        """Note what did not hold. The run ends at the next look."""
        self._failure = self._failure or Violation(text)
        self.kernel.stop()

    # -- what the machine asks ---------------------------------------------------------------

    def _start_s(self) -> float:
        start_s = 0.15 + self.kernel.random.random() * 0.4 + self.slow_start_s
        self._began_by = max(self._began_by, self.kernel.now + start_s)
        return start_s

    def _before_call(self, process: OsProcess, call: str) -> None:
        for trap in self.traps:
            if trap.is_for(process, call):
                self.traps.remove(trap)
                trap.spring(self, process, call)
                return

    def _before_kill(self, killer: OsProcess, target: OsProcess) -> None:
        """A worker kills agents that were stopped, and nobody else."""
        if target.running and target not in self.stopped:
            self.violate(f"{killer} kills {target}, which never hung")

    def _agent_began(self, agent: OsProcess) -> None:
        self.agents.append(agent)
        self.tell(f"{agent} begins for {_argument(agent, '--owner')}")
        others = [other for other in self.living_agents() if other is not agent]
        same = [o for o in others if _argument(o, "--socket") == _argument(agent, "--socket")]
        if same and not self.locks_removed:
            self.violate(f"{agent} begins while {same[0]} runs for the same owner")

    def _before_unlink(self, path: str, inode: Inode) -> None:
        """An agent that has bound a socket must not remove another one that serves."""
        current = self.kernel.current
        remover = self.machine.of.get(current.process) if current else None
        if remover is None or inode.listener is None:
            return
        owners = [p for p, one in self.machine.listeners() if one is inode.listener]
        if not owners or remover in owners:
            return
        has_bound = remover.arguments and _has_listener(remover)
        if has_bound or not self.locks_removed:
            self.violate(f"{remover} removes the socket of {owners[0]}, which serves")

    def new_budget(self, limit: int) -> Budget:
        """Returns a budget, and notes whose it is."""
        budget = self.budgets[self.machine.current] = Budget(limit)
        return budget

    # -- work --------------------------------------------------------------------------------

    def split(self, query: str) -> Split:
        """Returns a random split of what the topic holds."""
        chance = self.kernel.random
        topic = self.cluster.image.topics[TOPIC]
        chosen = [n for n in range(len(topic.partitions)) if chance.random() < 0.5] or [0]
        ranges = []
        for index in chosen:
            start, end = self.cluster.bounds(TOPIC, index) or (0, 0)
            first = start + int(chance.random() * (end - start))
            last = min(end, first + 1 + int(chance.random() ** 2 * self.plan.split_records))
            leader = topic.partitions[index].leader
            broker = self.cluster.brokers[leader]
            ranges.append(
                OffsetRange(
                    tp=TopicPartition(TOPIC, index),
                    topic_id=topic.id,
                    start=first,
                    end=last,
                    leader_epoch=topic.partitions[index].epoch,
                    leader=Broker(node_id=leader, host=broker.host, port=broker.port),
                )
            )
        return Split(query=query, ranges=tuple(ranges))

    def failed(self, worker: Worker, began: float, error: KfetchError) -> None:
        """A read has raised. Something must have gone wrong shortly before."""
        self.failed_reads += 1
        self.tell(f"{worker.machine_process} fails: {error}")
        excused = self.last_fault >= began - _EXCUSE_S
        if self.plan.mild:
            excused &= any(text in error.message for text in _LOST_AGENTS)
        if worker.executor.alive and not excused:
            self.violate(f"{worker.machine_process} failed without a reason: {error}")

    def living_agents(self) -> list[OsProcess]:
        """Returns the agents that run."""
        return [agent for agent in self.agents if agent.running]

    def workers(self) -> list[Worker]:
        """Returns the living workers."""
        return [w for executor in self.executors for w in executor.workers if w.process.alive]

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the plan. Raises Violation."""
        with self._installed():
            try:
                self._run()
            finally:
                self.kernel.close()
        return self.outcome()

    def outcome(self) -> Outcome:
        """How far it came."""
        return Outcome(
            self.plan,
            steps=self.kernel.steps,
            seconds=self.kernel.now - self._began,
            reads=self.reads,
            failed_reads=self.failed_reads,
            agents=len(self.agents),
            story=self.story,
        )

    def _run(self) -> None:
        plan = self.plan
        self.options = parsing.parse(
            {
                "kafka.bootstrap.servers": ",".join(f"{h}:{p}" for h, p in self.cluster.bootstrap),
                "subscribe": TOPIC,
                "kfetch.agent": "process",
                "kafkaConsumer.pollTimeoutMs": "20000",
                **dict(plan.options),
            }
        )
        self.cluster.create_topic(TOPIC, 3, self.kernel.now * 1000, replicas=2)
        for index in range(3):
            for _ in range(20):
                values = [bytes(plan.record_bytes) for _ in range(5)]
                self.cluster.produce(TOPIC, index, values, self.kernel.now * 1000)
        for number in range(plan.executors):
            self.executors.append(Executor(self, number))
        for action in plan.actions:
            self.kernel.after(action.at_s, self._act, action)
        self._staff()
        self._steps(plan.minutes * 60)
        self._heal()
        self._finish_reads()
        self._idle()
        self._end()

    def _act(self, action: Any) -> None:
        told = self._acts[action.kind](self, action.numbers)
        if told:
            self.fault(told)

    def _staff(self) -> None:
        if self.stops:
            return
        self.executors = [one for one in self.executors if one.alive or _group(one)]
        while sum(one.alive for one in self.executors) < self.plan.executors:
            self.executors.append(Executor(self, self.kernel.next_number()))
        for executor in self.executors:
            executor.staff()
        self.kernel.after(0.2 + self.kernel.random.random(), self._staff)

    def _steps(self, seconds: float) -> None:
        kernel = self.kernel
        end = kernel.now + seconds
        while kernel.now < end:
            kernel.step_limit = kernel.steps + _STEPS_A_SECOND_MAX
            kernel.run(until=min(end, kernel.now + _LOOK_S))
            if self._failure is not None:
                raise self._failure
            if kernel.steps >= kernel.step_limit:
                raise Violation(f"a hot loop: {_STEPS_A_SECOND_MAX} steps within a second")
            if kernel.crashes:
                crash = kernel.crashes[0]
                raise Violation(f"{crash.thread} died: {crash.error!r}") from crash.error
            self._look()

    def _look(self) -> None:
        self._look_for_doubles()
        for worker in self.workers():
            since = worker.reading_since
            if since is None or worker.process.frozen:
                continue
            since = max(since, self.last_fault)
            if self.kernel.now - since > READ_S_MAX:
                raise Violation(
                    f"{worker.machine_process} waits since {self.kernel.now - since:.0f} s"
                )
        for agent, budget in self.budgets.items():
            if agent.running and (problem := broken(budget)):
                raise Violation(f"{agent}: {problem}")

    def _look_for_doubles(self) -> None:
        """Two agents with a listening socket, for one owner, longer than an agent may leave."""
        serving: dict[str, list[OsProcess]] = {}
        for process, _ in self.machine.listeners():
            if process.arguments and not process.process.frozen:
                serving.setdefault(_argument(process, "--socket"), []).append(process)
        doubles = {path: agents for path, agents in serving.items() if len(agents) > 1}
        self._double_since = {p: self._double_since.get(p, self.kernel.now) for p in doubles}
        for path, since in self._double_since.items():
            if self.kernel.now - since > _LEAVE_S:
                names = " and ".join(map(str, doubles[path]))
                raise Violation(f"{names} serve one owner since {_LEAVE_S:g} s")

    def _heal(self) -> None:
        """End everything that is wrong."""
        self.traps.clear()
        self.machine.tree.full = self.machine.tree.no_inodes = False
        self.machine.no_processes = False
        self.slow_start_s = 0.0
        for process in list(self.machine.processes.values()):
            process.process.globals.pop(("threading", "refuse"), None)
            process.limits[self.machine.nofile] = (4096, 4096)
            if process.process.frozen:
                process.send_signal(signal.SIGCONT)
        for number in self.network.links:
            self.network.hang(number, False)
        self.fault("everything is healed")

    def _finish_reads(self) -> None:
        """Let the workers end what they read."""
        self._steps(60.0)
        self.stops = True
        deadline = self.kernel.now + READ_S_MAX
        while any(worker.reading_since is not None for worker in self.workers()):
            if self.kernel.now > deadline:
                raise Violation("a worker's last read does not end")
            self._steps(_LOOK_S)

    def _idle(self) -> None:
        """Wait until the agents have closed their queries, and look at their memory."""
        self._steps(self.options.agent.lease_s + 10.0)
        for agent, budget in self.budgets.items():
            if agent.running and budget.used:
                raise Violation(f"{agent} is idle and uses {budget.used} bytes")
        if self.network.connections:
            raise Violation(f"connections are left over: {list(self.network.connections)}")

    def _end(self) -> None:
        """End the executors in one of two ways, and see what is left."""
        self._steps(max(0.0, self._began_by - self.kernel.now))  # some programs start slowly
        if self.kernel.random.random() < 0.5:
            self._steps(70.0)  # the agents leave for they are idle
            if self.living_agents():
                raise Violation(f"{self.living_agents()[0]} is idle and stays")
        self.tell("the executors end")
        for executor in self.executors:
            executor.jvm.send_signal(signal.SIGKILL)
        self._steps(10.0)
        machine = self.machine
        if machine.tree.segments():
            gc.collect()
        left = [p for p in machine.processes.values() if p is not machine.init]
        if left:
            raise Violation(f"processes are left over: {left}")
        self._check_files()
        if machine.tree.segments():
            raise Violation(f"{len(machine.tree.segments())} segments are left over")

    def _check_files(self) -> None:
        """A killed agent's files stay until another one starts. Nothing else does."""
        killed = {_argument(a, "--socket").removesuffix(".sock") for a in self.agents if a.status}
        for path, inode in self.machine.tree.walk():
            name, _, kind = path.rpartition(".")
            if kind == "json":
                json.loads(inode.data)
                continue
            if inode.lock is not None or inode.listener is not None:
                raise Violation(f"{path} is in use though nobody runs")
            known = kind in ("log", "lock") or (kind == "sock" and name in killed)
            known |= kind == "tmp"  # a draft of statistics, whose process was ended
            if not known:
                raise Violation(f"{path} is left over")

    @contextmanager
    def _installed(self) -> Iterator[None]:
        kernel = self.kernel
        with ExitStack() as stack:
            stack.enter_context(installed(self.machine, logs=self.plan.logs))
            modules = modules_of("kfetch")
            stack.enter_context(substituted(modules, all_modules(kernel)))
            stack.enter_context(self.network.installed(modules))
            values: dict[tuple[str, str], Any] = {
                ("kfetch.agent.__main__", "Budget"): self.new_budget,
            }
            if self._planted is not None:
                values |= self._planted(self)
            stack.enter_context(patched(values))
            initial = {
                **GLOBALS,
                ("kfetch.wire.addresses", "_avoided_until"): dict,
                **locks_of(kernel, modules),
            }
            stack.enter_context(ProcessGlobals(initial).installed(kernel))
            yield


class Trap:
    """Waits for a process of a role to make a certain system call, and then acts."""

    def __init__(self, role: str, call: str, count: int, freeze_s: float) -> None:
        """``count``: at which such call. ``freeze_s``: how long the process stops; 0: it dies."""
        self.role = role
        self.call = call
        self.count = count
        self.freeze_s = freeze_s

    def is_for(self, process: OsProcess, call: str) -> bool:
        """Whether this call springs it."""
        role = "agent" if process.arguments else process.process.name.partition("-")[0]
        if role != self.role or (self.call and self.call != call):
            return False
        self.count -= 1
        return self.count < 0

    def spring(self, run: ExecutorRun, process: OsProcess, call: str) -> None:
        """Kill or stop the process. Its thread goes no further."""
        if not self.freeze_s:
            run.fault(f"{process} is killed at {call}")
            process.send_signal(signal.SIGKILL)
            return
        run.fault(f"{process} stops at {call} for {self.freeze_s:.1f} s")
        run.stop(process)
        run.kernel.after(self.freeze_s, run.wake, process)
        run.kernel.sleep(0.0)


def _argument(process: OsProcess, name: str) -> str:
    arguments = process.arguments
    return arguments[arguments.index(name) + 1] if name in arguments else ""


def _has_listener(process: OsProcess) -> bool:
    return any(one is process for one, _ in process.machine.listeners())


def _group(executor: Executor) -> bool:
    return executor.daemon.running


def prepare() -> None:
    """Load what a simulation must not load within it: the decoder's machine code, and pyspark."""
    decoding.load_decoder()
    from pyspark import TaskContext

    TaskContext.get()


def simulate(
    plan: Plan, acts: dict[str, Callable[..., str]], planted: Planted | None = None
) -> Outcome:
    """Returns the outcome of a plan, with its violation if there is one."""
    run = ExecutorRun(plan, acts, planted)
    try:
        return run.run()
    except Violation as violation:
        outcome = run.outcome()
        outcome.violation = str(violation)
        return outcome
