"""One simulation: a cluster, a query and its executor, producers, and what happens to them.

Events happen for the scenario's minutes. Then everything is healed, and the query has time to catch
up. A ``Violation`` says what did not hold. The story lists what happened.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pyspark import TaskContext

from kfetch import decoding, losses
from kfetch.errors import DataLoss, KfetchError
from kfetch.fetch.part_decoder import PartDecoder
from kfetch.offsets import from_json
from kfetch.options import SourceOptions
from kfetch.spark import options as parsing
from kfetch.spark.batch import KfetchReader
from kfetch.spark.source import KfetchStreamReader
from simulation.chaos import ACTIONS
from simulation.cluster.chaos import Action, Chaos
from simulation.cluster.cluster import Cluster, Place
from simulation.cluster.releases import RELEASES
from simulation.history.account import Account, Imbalance
from simulation.history.batch import Stock, between, check_rows, records
from simulation.history.budgets import Budgets
from simulation.history.ranges import positions_checked, waits_measured
from simulation.history.sessions import sessions_compared
from simulation.history.starts import look, wrong_starts
from simulation.kernel import Kernel, Process
from simulation.kernel.stand_ins import all_modules
from simulation.kernel.substitution import (
    ProcessGlobals,
    locks_of,
    modules_of,
    patched,
    substituted,
)
from simulation.machine import Machine, OsProcess, installed
from simulation.machine.install import GLOBALS, agent_modules, agent_program
from simulation.network import Network
from simulation.scenario import BATCH_OPTIONS, STARTING_GROUP, Scenario, drawn_batch
from simulation.spark.batch import BatchRead
from simulation.spark.executor import Executor, Row, TaskFailed
from simulation.spark.query import Checkpoint, Query, Sink, Trigger

SETTLE_S = 900.0
"""The longest time without a delivery, in virtual seconds, after everything was healed."""
QUIET_S = 30.0
_LOOK_S = 5.0
_AGENT_ENDS_S = 20.0
_ATTEMPT_S = 300.0
"""An attempt that nobody needs may read for two minutes, extended once."""
_STOPS_S = 900.0
"""A micro-batch whose records are gone ends after four attempts of two minutes each."""
_QUICK_S = 0.002
"""The longest way of a packet while the query catches up."""
_QUICK_BATCH_S = 0.01
"""How long Spark takes for an Arrow batch then. Without it, thousands of tasks end in a second."""
_STEPS_A_SECOND_MAX = 60_000
"""More steps within a virtual second are a hot loop."""
_QUIET_REQUESTS_MAX = 4.0
"""Requests a second to each broker while nothing happens: long polls and metadata."""


class Violation(AssertionError):
    """Something that must hold does not."""


FOUND = (Violation, Imbalance)
"""What a simulation raises when something does not hold."""


@dataclass
class Outcome:
    """How a simulation ended."""

    scenario: Scenario
    steps: int = 0
    seconds: float = 0.0
    """Virtual seconds."""
    records: int = 0
    batches: int = 0
    runs: int = 0
    violation: str = ""
    story: list[str] = field(default_factory=list)


class _Warnings(logging.Handler):
    """Gives the product's warnings to the story."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a log line."""
        self._tell(f"  log: {record.getMessage()}")


class _RecordingSink(Sink):
    """A sink that tells the account."""

    def __init__(self, account: Account, fail: Callable[[str], object]) -> None:
        super().__init__()
        self._account = account
        self._fail = fail

    def write(self, batch_id: int, rows: list[list[Row]]) -> bool:
        """See Sink."""
        is_new = super().write(batch_id, rows)
        if is_new:
            try:
                for of_task in rows:
                    self._account.deliver(batch_id, of_task)
            except Imbalance as problem:
                self._fail(str(problem))
        return is_new


class World:
    """Everything of one simulation."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed)
        self.kernel.preempt = scenario.preempt
        self.account = Account(reads_by_name=scenario.reads_by_name)
        self.story: list[str] = []
        self.cluster = Cluster(
            scenario.brokers,
            random.Random(scenario.seed),
            release=RELEASES[scenario.release],
            racks=[f"rack-{n}" for n in range(scenario.racks)],
            slots=scenario.session_slots,
            near_replicas=scenario.racks > 0,
            listener=self.account,
        )
        self._note_writes()
        self.network = Network(self.kernel, self.cluster)
        self.network.latency_s = scenario.latency_s
        self.machine = Machine(self.kernel, programs={"kfetch.agent": agent_program})
        self.machine.start_s = lambda: 0.15 + self.kernel.random.random() * 0.4
        self.machine.on_exec = self._agent_began
        self._agents: list[OsProcess] = []
        self._budgets = Budgets(self.kernel, self.fail)
        self._healed = False
        self._batch_reads: list[BatchRead] = []
        """Those that run."""
        self.checkpoint = Checkpoint(on_planned=self._planned)
        self.sink = _RecordingSink(self.account, self.fail)
        self.executor = self._new_executor()
        self.query: Query
        self.runs = 0
        self.chaos = Chaos(self.kernel, self.cluster, self.network, tell=self.story.append)
        self._chance = random.Random(scenario.seed + 1)
        self._partitions: dict[str, int] = {}
        """The topics, and how many partitions they had at first."""
        self._failures: list[str] = []
        self._tolerates = False
        self._stops = False
        self._began = self.kernel.now

    @property
    def now_ms(self) -> float:
        """The time for the cluster."""
        return self.kernel.now * 1000

    @property
    def outcome(self) -> Outcome:
        """How far it came."""
        return Outcome(
            self.scenario,
            steps=self.kernel.steps,
            seconds=self.kernel.now - self._began,
            records=len(self.account.delivered),
            batches=len(self.sink.batches),
            runs=self.runs,
            story=self.story,
        )

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        if text:
            self.story.append(f"{self.kernel.now - self._began:9.3f}  {text}")

    def _note_writes(self) -> None:
        """Let the account know what producers write, before Kafka acknowledges it."""
        produce, end_transaction = self.cluster.produce, self.cluster.end_transaction
        values_of: dict[tuple[str, int, int], list[bytes]] = {}

        def noted_produce(name: str, index: int, values: Any, *rest: Any, **named: Any) -> bool:
            self.account.produced.update(dict.fromkeys(values, (name, index)))
            values_of.setdefault((name, index, named.get("producer", -1)), []).extend(values)
            return produce(name, index, values, *rest, **named)

        def noted_end(
            name: str, index: int, producer: int, now_ms: float, *, commits: bool
        ) -> bool:
            if not commits:
                self.account.aborted.update(values_of.get((name, index, producer), ()))
            return end_transaction(name, index, producer, now_ms, commits=commits)

        self.cluster.produce = noted_produce  # type: ignore[method-assign]
        self.cluster.end_transaction = noted_end  # type: ignore[method-assign]

    def fail(self, text: str) -> None:
        """Note what does not hold. The simulation ends with this step."""
        self._failures.append(text)
        self.kernel.stop()

    # -- what chaos asks ---------------------------------------------------------------------

    def agents(self) -> list[Process]:
        """Returns the living agents' processes."""
        return [agent.process for agent in self._agents if agent.running]

    def workers(self) -> list[Process]:
        """Returns the living workers' processes."""
        return [process for executor in self._executors() for process in executor.processes()]

    def read_batch(self, chance: random.Random) -> str:
        """Read the topics once, between bounds that chance draws."""
        texts = drawn_batch(chance, self.kernel.wall, self._batch_options())
        options = parsing.parse(texts, batch=True)
        before = records(self.cluster, self.account.aborted)
        read = BatchRead(
            self.kernel,
            KfetchReader(options),
            self._new_executor(),
            lambda read: self._batch_ended(read, options, before),
        )
        self._batch_reads.append(read)
        self.machine.adopt(read.process, self.machine.init, "python3")
        read.start()
        return f"a batch read from {options.starting.summary}"

    def _batch_options(self) -> dict[str, str]:
        ours = {name: text for name, text in self.scenario.options if name in BATCH_OPTIONS}
        return {**self._common_options(), **ours, "failOnDataLoss": "true"}

    def _batch_ended(self, read: BatchRead, options: SourceOptions, before: Stock) -> None:
        self._batch_reads.remove(read)
        self.kernel.after(0.0, read.executor.kill)
        error = read.error
        self.tell(f"a batch read has {len(read.rows)} rows" if error is None else repr(error))
        after = records(self.cluster, self.account.aborted)
        stayed = {value: one for value, one in before.items() if after.get(value) == one}
        now_ms = int(self.kernel.wall * 1000)
        must = between(stayed, options.starting, options.ending, now_ms)
        try:
            if isinstance(error, DataLoss):
                self.account.check_happened(error)
            elif error is not None:
                self._check_error(error)
            else:
                check_rows(read.rows, must, self.account)
        except FOUND as problem:
            self.fail(str(problem))

    def _agent_began(self, agent: OsProcess) -> None:
        self._agents.append(agent)
        self.tell(f"{agent} begins")

    def _create_again(self, name: str) -> None:
        if name not in self.cluster.image.topics:
            count, replicas = self._partitions[name], self.scenario.replicas
            self.cluster.create_topic(name, count, self.now_ms, replicas=replicas)
            self.tell(f"{name} is created again")

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the scenario. Raises Violation, or Imbalance of the account."""
        with self._installed():
            try:
                self._run()
            finally:
                self.kernel.close()
        return self.outcome

    def _run(self) -> None:
        scenario, kernel = self.scenario, self.kernel
        for number, partitions in enumerate(scenario.partitions):
            name = f"t{number}"
            self._partitions[name] = partitions
            self.cluster.create_topic(name, partitions, self.now_ms, replicas=scenario.replicas)
        for action in scenario.actions:
            kernel.after(action.at_s, self._happen, action)
        if scenario.start_s:
            kernel.after(scenario.start_s, self._start_query)
        else:
            self._start_query()
        self._steps(scenario.minutes * 60)
        self._heal()
        self._settle()
        self._stay_quiet()
        self._end()

    def _steps(self, seconds: float) -> None:
        """Step for some virtual seconds. Raises Violation for a hot loop or a crash."""
        kernel = self.kernel
        end = kernel.now + seconds
        while kernel.now < end:
            until = min(end, kernel.now + 1.0)
            kernel.step_limit = kernel.steps + _STEPS_A_SECOND_MAX
            kernel.run(until=until)
            if kernel.steps >= kernel.step_limit:
                raise Violation(f"a hot loop: {_STEPS_A_SECOND_MAX} steps within a second")
            if self._failures:
                raise Violation(self._failures[0])
            if kernel.crashes:
                crash = kernel.crashes[0]
                raise Violation(f"{crash.thread} died: {crash.error!r}") from crash.error

    def _wait_while(self, holds: Callable[[], bool], seconds: float) -> None:
        """Step while a condition holds, but not longer."""
        until = self.kernel.now + seconds
        while holds() and self.kernel.now < until:
            self._steps(_LOOK_S)

    def _happen(self, action: Action) -> None:
        if action.kind in ACTIONS:
            if not self.runs:
                return  # there is no process yet
            self.tell(ACTIONS[action.kind](self, action.arguments["numbers"]))
        else:
            self.chaos.perform(action)

    # -- the query ---------------------------------------------------------------------------

    def _executors(self) -> list[Executor]:
        return [self.executor, *(one.executor for one in self._batch_reads)]

    def _new_executor(self) -> Executor:
        scenario = self.scenario
        return Executor(
            self.kernel,
            scenario.task_slots,
            self.machine,
            speculation=scenario.speculation,
            batch_s=_QUICK_BATCH_S if self._healed else scenario.batch_s,
        )

    def _start_query(self) -> None:
        if self._stops:
            return
        self.runs += 1
        options = {**self._common_options(), **dict(self.scenario.options)}
        if self._tolerates:
            options["failOnDataLoss"] = "false"
        make_reader, sink = self._way(options)
        if self.runs == 1 or not self.cluster.commits.get(STARTING_GROUP):
            self._commit_group()  # later, if no partition had a leader at first
        available_now = self.scenario.available_now
        self.query = Query(
            self.kernel,
            lambda: self._checked(make_reader()),
            self.checkpoint,
            sink,
            self.executor,
            trigger=Trigger.AVAILABLE_NOW if available_now else Trigger.PROCESSING_TIME,
            trigger_s=self.scenario.trigger_s,
        )
        query = self.query
        self.machine.adopt(query.process, self.machine.init, "python3")
        query.process.on_end(lambda: self._query_ended(query))

    def _way(self, options: dict[str, str]) -> tuple[Callable[[], KfetchStreamReader], Sink]:
        """Returns what makes the reader of a run, and the run's sink."""
        parsed = parsing.parse(options)
        return lambda: KfetchStreamReader(parsed), self.sink

    def _common_options(self) -> dict[str, str]:
        subscription = {"subscribe": ",".join(self._partitions)}
        if self.scenario.by_pattern:
            subscription = {"subscribePattern": "t[0-9]"}
        return {
            "kafka.bootstrap.servers": ",".join(f"{h}:{p}" for h, p in self.cluster.bootstrap),
            **subscription,
            "kfetch.agent": "process" if self.scenario.agents else "inline",
            "kafka.request.timeout.ms": "10000",
        }

    def _checked(self, reader: KfetchStreamReader) -> KfetchStreamReader:
        """Returns a reader whose first look-up of a start is checked."""
        look_up, starting = reader.initialOffset, reader._options.starting

        def checked() -> dict[str, Any]:
            del reader.initialOffset
            if not self.checkpoint.offsets:
                self.account.begin()
            before = look(self.cluster, self.kernel.wall, STARTING_GROUP)
            found = look_up()
            after = look(self.cluster, self.kernel.wall, STARTING_GROUP)
            wrong = wrong_starts(starting, before, after, from_json(found))
            if wrong:
                self.fail(_list(wrong))
            return found

        reader.initialOffset = checked  # type: ignore[method-assign]
        return reader

    def _planned(self, end: str) -> None:
        is_first = len(self.checkpoint.offsets) == 1
        for text in (self.checkpoint.first_start, end) if is_first else (end,):
            offsets = from_json(json.loads(text))
            ends = {(tp.topic, tp.partition): (*at,) for tp, at in offsets.positions.items()}
            self.account.knows(ends, offsets.topic_ids)
        self.account.planned(ends)

    def _commit_group(self) -> None:
        """Commit the offsets of the group at which a query may start."""
        commits = self.cluster.commits.setdefault(STARTING_GROUP, {})
        chance = random.Random(self.scenario.seed + 2)
        for place, hosted in self.cluster.leaders():
            unread = hosted.log.high_watermark - hosted.log.start
            commits[place] = hosted.log.start + int(unread * chance.random()), -1

    def _query_ended(self, query: Query) -> None:
        error = query.error
        if error is None:
            self.tell("the query ends" if query.finished else "the driver is gone")
        else:
            self.tell(f"the query fails: {type(error).__name__}: {error}")
            self._check_error(error)
        if query.batches:
            self._tolerates = False
        if isinstance(error, DataLoss):
            self._tolerates = True
        chance = self._chance.random()
        # Spark's application survives a query that fails: its executors may read for the next run.
        if chance < 0.5 or not (query.finished or query.error):
            executor, self.executor = self.executor, self._new_executor()
            self.kernel.after(chance * 6, executor.kill)
        self.kernel.after(0.5 + self._chance.random() * 5, self._start_query)

    def _check_error(self, error: BaseException) -> None:
        if isinstance(error, DataLoss):
            self._name(error)
        elif isinstance(error, TaskFailed) and self._kills_workers:
            return  # its worker was killed four times
        elif not isinstance(error, KfetchError):
            raise Violation(f"the query failed by a bug: {error!r}") from error
        elif self.scenario.profile == "calm":
            raise Violation(f"the query failed without a reason: {error!r}") from error

    @property
    def _kills_workers(self) -> bool:
        return any(action.kind == "kill_worker" for action in self.scenario.actions)

    def _warn_of_loss(self, loss: DataLoss) -> str:
        self._name(loss)
        return _loss_warning(loss)

    def _name(self, loss: DataLoss) -> None:
        try:
            self.account.name(loss)
        except Imbalance as false:
            self.fail(str(false))

    # -- the end -----------------------------------------------------------------------------

    def _heal(self) -> None:
        """End everything that is wrong, and write no more."""
        self.tell("everything is healed")
        self.chaos.heal()
        self._healed = True
        self.network.latency_s = _QUICK_S
        for executor in self._executors():
            executor.batch_s = _QUICK_BATCH_S
        for name in self._partitions:
            self._create_again(name)

    def _settle(self) -> None:
        """Step until the account is balanced. Raises Violation if it takes too long."""
        delivered, deadline = -1, 0.0
        while problems := self._problems() or [
            f"{one.process} still reads" for one in self._batch_reads
        ]:
            if len(self.account.delivered) > delivered:
                delivered, deadline = len(self.account.delivered), self.kernel.now + SETTLE_S
            if self.kernel.now >= deadline:
                raise Violation(_list(problems))
            self._steps(_LOOK_S)
        self.tell("everything is delivered")

    def _problems(self) -> list[str]:
        start = self.checkpoint.first_start
        if not start:
            return ["the query has planned no micro-batch"]
        starts = {
            (tp.topic, tp.partition): position.offset
            for tp, position in from_json(json.loads(start)).positions.items()
        }
        missing = self.account.missing(self._surviving(), starts)
        return missing or self.account.unnamed(starts)

    def _surviving(self) -> dict[Place, list[tuple[int, bytes]]]:
        return {
            (name, index): [
                pair
                for pair in self.cluster.surviving(name, index)
                if pair[1] not in self.account.aborted
            ]
            for name, topic in self.cluster.image.topics.items()
            for index in range(len(topic.partitions))
        }

    def _stay_quiet(self) -> None:
        """Check that an idle system asks little."""
        requests = 0
        send = self.network.send

        def count(connection: Any, request: Any) -> None:
            nonlocal requests
            requests += 1
            send(connection, request)

        self._wait_while(lambda: any(executor.busy for executor in self._executors()), _ATTEMPT_S)
        self._steps(QUIET_S)
        self.network.send = count  # type: ignore[method-assign]
        self._steps(QUIET_S)
        self.network.send = send  # type: ignore[method-assign]
        most = _QUIET_REQUESTS_MAX * QUIET_S * len(self.cluster.brokers)
        if requests > most and not self.scenario.available_now:
            raise Violation(f"{requests} requests within {QUIET_S:.0f} s, though nothing happens")
        if problems := self._budgets.problems():
            raise Violation(_list(problems))

    def _end(self) -> None:
        """Stop the query, and check what it leaves."""
        self._stops = True
        self.query.stop()
        self._wait_while(lambda: self.query.alive, _STOPS_S)
        if self.query.alive:
            raise Violation("the query does not stop")
        self.executor.kill()
        self._steps(_AGENT_ENDS_S)
        if self.agents():
            raise Violation(f"agents are left over: {self.agents()}")
        if self.network.connections:
            raise Violation(f"connections are left over: {list(self.network.connections)}")
        if self.machine.tree.segments():
            gc.collect()
        if left := self.machine.tree.segments():
            raise Violation(f"{len(left)} pieces of shared memory are left over")

    @contextmanager
    def _installed(self) -> Iterator[None]:
        kernel = self.kernel
        modules = modules_of("kfetch")
        log = logging.getLogger("kfetch")
        handler = _Warnings(self.tell)
        with ExitStack() as stack:
            stack.enter_context(installed(self.machine, logs=False))
            stack.enter_context(substituted(modules, all_modules(kernel)))
            stack.enter_context(self.network.installed(modules))
            stack.enter_context(sessions_compared(self.cluster, self.fail))
            stack.enter_context(self._budgets.noted())
            stack.enter_context(positions_checked(self.fail))
            stack.enter_context(waits_measured(kernel, self.fail))
            stack.enter_context(
                patched(
                    {
                        ("kfetch.losses", "warning"): self._warn_of_loss,
                        ("kfetch.watch.split_planning", "uuid4"): self._uuid,
                        ("kfetch.fetch.split_reader", "PartDecoder"): self._part_decoder,
                    }
                )
            )
            initial = {**_PROCESS_GLOBALS, **GLOBALS, **locks_of(kernel, modules)}
            stack.enter_context(ProcessGlobals(initial).installed(kernel))
            stack.callback(log.removeHandler, handler)
            stack.callback(setattr, log, "propagate", log.propagate)
            log.addHandler(handler)
            log.setLevel(logging.WARNING)
            log.propagate = False
            yield

    def _part_decoder(self, *arguments: Any) -> PartDecoder:
        """Returns a decoder that takes some time, as each one does."""
        decoder = PartDecoder(*arguments)
        decode, random = decoder.decode, self.kernel.random.random

        def slow(*slices: Any) -> Any:
            if self.scenario.decode_s and not self._healed:
                self.kernel.sleep(self.scenario.decode_s * random())
            return decode(*slices)

        decoder.decode = slow  # type: ignore[method-assign]
        return decoder

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.kernel.random.getrandbits(128), version=4)


def _list(problems: list[str]) -> str:
    more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more


_PROCESS_GLOBALS: dict[tuple[str, str], Callable[[], Any]] = {
    ("kfetch.agent.inline", "_queries"): OrderedDict,
    ("kfetch.wire.addresses", "_avoided_until"): dict,
}
_LATE_MODULES = (
    "kfetch.agent.inline",
    "kfetch.watch.driver",
    "kfetch.wire.groups",
)
"""Modules that the product loads when it needs them."""
_loss_warning = losses.warning


def prepare() -> None:
    """Load what a simulation must not load within it: the decoder's machine code."""
    for name in _LATE_MODULES:
        import_module(name)
    decoding.load_decoder()
    agent_modules()
    TaskContext.get()
    gc.collect()
    gc.freeze()  # a collection after each simulation looks at its own objects alone


def simulate(make: Callable[[], World]) -> Outcome:
    """Returns the outcome of a world, with its violation if there is one."""
    gc.disable()  # it would end the generators of killed processes at some moment
    world = make()
    try:
        return world.run()
    except FOUND as violation:
        outcome = world.outcome
        outcome.violation = str(violation)
        return outcome
    finally:
        del world
        gc.enable()
        gc.collect()
