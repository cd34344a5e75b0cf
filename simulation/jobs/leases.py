"""Hosts that run one project's jobs. Their processes hold the real leases, in a store that fails.

The project's storage is shared, as on NFS without remote locks. So the lock of a job's directory
reaches the processes of one host, and the lease of the checkpoint those of all.

The kernel ends a process with its lease, also a frozen one. Machines that are paused whole are in
``simulation.leases``: decision 116 has the gaps that they leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kfetch.storage import lease_holder
from kfetch.storage.lease import Holder, Life, parse
from kfetch.storage.lease_holder import HeldLease, Surroundings
from kfetch.storage.versions import Version
from kfetch_jobs.run import job_lock
from simulation.jobs.machine import Failure, Machine, Process
from simulation.jobs.system import HOST, Values
from simulation.kernel.stand_ins import threading_module
from simulation.kernel.substitution import substituted
from simulation.leases.clocks import HostClock, Switch
from simulation.leases.store import LeaseFile, Store


class Hosts:
    """Some hosts, the store of their lease, and what must hold."""

    def __init__(self, machine: Machine, count: int) -> None:
        self.machine = machine
        self.store = Store(machine.kernel, self._lease_changed)
        draw = machine.random
        self._clocks = [
            HostClock(machine.kernel, draw.uniform(0.98, 1.02), draw.uniform(0, 1e6))
            for _ in range(count)
        ]
        self._cut_until = [0.0] * count
        self._held: dict[Process, HeldLease] = {}
        self._clients: dict[Process, _Client] = {}

    def trouble(self, seconds: float) -> None:
        """Let requests to the store fail by chance for a time."""
        self.store.trouble_until = self.machine.now + seconds

    def heal(self) -> None:
        """Let the store be well, and in reach."""
        self.trouble(0.0)
        self._cut_until = [0.0] * len(self._clocks)

    def cut(self, host: int, seconds: float) -> None:
        """Let a host not reach the store for a time."""
        self._cut_until[host] = self.machine.now + seconds

    def cut_until(self, process: Process) -> float:
        """Returns until when a process can't reach the store."""
        return self._cut_until[int(process.environ[HOST])]

    def check_commit(self) -> None:
        """Raises Failure unless the process has looked at its lease for this commit, and had it."""
        process = self._process()
        lease, seen = self._held[process], self._clients[process].take_look()
        if seen is None:
            raise Failure(f"{process.name} commits without a look at its lease")
        if seen != lease.lease.epoch:
            raise Failure(f"{process.name} commits, and another process has the lease")

    def forget_look(self) -> None:
        """Let the looks before a plan not count for the commit of its rows."""
        self._clients[self._process()].take_look()

    def _process(self) -> Process:
        process = self.machine.current
        assert process is not None
        return process

    def clock_of(self, process: Process) -> HostClock:
        """Returns the clock of a process's host."""
        return self._clocks[int(process.environ[HOST])]

    def _holds(self, process: Process) -> bool:
        lease = self._held[process]
        ends_at = lease.term.ends_at
        return process.alive and not lease._lost and self.clock_of(process).now() < ends_at

    def _lease_changed(self, content: bytes) -> None:
        lease = parse(content)
        if lease is None or lease.holder is None or lease.renewals:
            return
        self.machine.note("store", f"{lease.holder.id} takes the lease, epoch {lease.epoch}")
        for process in self._held:
            if str(process.ticks) != lease.holder.started and self._holds(process):
                self.machine.failure = Failure(
                    f"{process.name} and {lease.holder.id} hold the lease at once"
                )
                self.machine.kernel.stop()

    # Stand-ins

    @contextmanager
    def installed(self) -> Iterator[None]:
        """A context in which the threads of leases are simulated."""
        with substituted([lease_holder], {"threading": threading_module(self.machine.kernel)}):
            yield

    def values(self) -> Values:
        """Returns what the lease of a job finds in its surroundings."""
        return {
            (job_lock.__name__, "lease_file"): lambda *_, **__: self._file(),
            (job_lock.__name__, "this_process"): self._holder,
            (job_lock.__name__, "clock"): lambda **_: self.clock_of(self._process()).now,
            (job_lock.__name__, "process_end"): lambda **_: self._switch(self._process()),
            (job_lock.__name__, "Surroundings"): self._surroundings,
            (job_lock.__name__, "take"): self._take,
        }

    def _file(self) -> _File:
        process = self._process()
        client = self._clients[process] = _Client(self, process)
        return _File(client, self.store)

    def _holder(self, purpose: str) -> Holder:
        process = self._process()
        return Holder(
            id=f"{process.name} {process.ticks}",
            host=f"h{process.environ[HOST]}",
            machine=process.environ[HOST],
            pid=process.pid,
            started=str(process.ticks),
            purpose=purpose,
        )

    def _switch(self, process: Process) -> Switch:
        def end() -> None:
            self.machine.note(process.name, "is ended with its lease")
            self.machine.kill(process)

        return Switch(self.machine.kernel, self.clock_of(process), process, end)

    def _surroundings(self, clock: Any) -> Surroundings:
        return Surroundings(
            clock=clock,
            wall=lambda: self.machine.wall,
            sleep=self.clock_of(self._process()).sleep,
            life_of=self._life_of,
        )

    def _life_of(self, holder: Holder) -> Life:
        if holder.machine != self._process().environ[HOST]:
            return Life.UNKNOWN
        process = self.machine.processes.get(holder.pid)
        same = process is not None and process.alive and str(process.ticks) == holder.started
        return Life.ALIVE if same else Life.DEAD

    @contextmanager
    def _take(self, *arguments: Any, **named: Any) -> Iterator[HeldLease]:
        process = self._process()
        with lease_holder.take(*arguments, **named) as lease:
            self._held[process] = lease
            self._clients[process].take_look()
            try:
                yield lease
            finally:
                del self._held[process]


class _Client:
    """A process, as the store knows it."""

    def __init__(self, hosts: Hosts, process: Process) -> None:
        self.machine = hosts.machine
        self._hosts, self._process = hosts, process
        self._thread = hosts.machine.kernel.current
        self._epoch = 0
        self._seen: int | None = None

    @property
    def cut_until(self) -> float:
        """See Client."""
        return self._hosts.cut_until(self._process)

    def take_look(self) -> int | None:
        """Returns the epoch of the last look since the last commit; None without one."""
        seen, self._seen = self._seen, None
        return seen

    def looked(self, epoch: int | None) -> None:
        """See Client. Without an answer the term decides. The lease's own thread does not count."""
        if self.machine.kernel.current is self._thread:
            self._seen = epoch or self._epoch

    def writes(self, content: bytes) -> None:
        """See Client."""
        lease = parse(content)
        assert lease is not None
        self._epoch = lease.epoch


class _File(LeaseFile):
    """The lease as a process sees it, which may die in each request."""

    def __init__(self, client: _Client, store: Store) -> None:
        super().__init__(client, store)
        self._machine = client.machine

    def read(self) -> Version | None:
        """See VersionedFile."""
        self._machine.point()
        return super().read()

    def write(self, content: bytes, before: str | None) -> str | None:
        """See VersionedFile."""
        self._machine.point()
        return super().write(content, before)
