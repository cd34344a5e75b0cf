"""Hosts that run a job by turns, in virtual time. Their processes use the real ``lease_holder``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kfetch.errors import KfetchError
from kfetch.storage import lease_holder
from kfetch.storage.lease import LENGTH_S, Holder, Life, parse
from kfetch.storage.lease_holder import HeldLease, Surroundings, take
from simulation.kernel import Kernel, Process
from simulation.kernel.stand_ins import threading_module
from simulation.kernel.substitution import substituted
from simulation.leases.chaos import QUIET_S, Event, HostPlan, Plan
from simulation.leases.clocks import HostClock, Switch
from simulation.leases.store import LeaseFile, Store


class World:
    """The hosts, their store, and what must hold."""

    def __init__(self, plan: Plan) -> None:
        self.kernel = Kernel(f"leases {plan.seed}")
        self.kernel.now = 0.0
        self.store = Store(self.kernel, self._lease_changed)
        self.story: list[str] = []
        self.failure = ""
        self.hosts = [Host(self, number, one) for number, one in enumerate(plan.hosts)]

    def run(self, events: Sequence[Event], seconds: float) -> str:
        """Let the events happen, and returns what did not hold; empty if everything did."""
        for event in events:
            self.kernel.at(event.at, self._happen, event)
        for host in self.hosts:
            self.kernel.after(self.kernel.random.uniform(0, 5), host.start)
        with (
            _quiet_log(),
            substituted([lease_holder], {"threading": threading_module(self.kernel)}),
        ):
            try:
                self.kernel.run(until=seconds)
            finally:
                self.kernel.close()
        if not self.failure and self.kernel.crashes:
            crash = self.kernel.crashes[0]
            self.failure = f"{crash.thread} failed: {crash.error!r}"
        if not self.failure and self.store.last_commit_s < seconds - QUIET_S / 2:
            self.failure = f"nobody has committed since {self.store.last_commit_s:.1f} s"
        return self.failure

    def note(self, who: object, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.kernel.now:9.3f} {who}: {text}")

    def fail(self, why: str) -> None:
        """End the simulation."""
        self.failure = self.failure or why
        self.note("judge", why)
        self.kernel.stop()

    def _lease_changed(self, content: bytes) -> None:
        """Check that nobody else holds the lease when a host takes it."""
        lease = parse(content)
        if lease is None or lease.holder is None or lease.renewals:
            return
        self.note(lease.holder.host, f"takes the lease, epoch {lease.epoch}")
        for host in self.hosts:
            if host.name != lease.holder.host and host.holds:
                self.fail(f"{host.name} and {lease.holder.host} hold the lease at once")

    def _happen(self, event: Event) -> None:
        if event.kind == "store":
            self.note("store", f"is in trouble for {event.seconds:.1f} s")
            until = self.kernel.now + event.seconds
            self.store.trouble_until = max(self.store.trouble_until, until)
        else:
            self.note(f"h{event.host}", f"{event.kind} for {event.seconds:.1f} s")
            self.hosts[event.host].happen(event)


@contextmanager
def _quiet_log() -> Iterator[None]:
    logger = logging.getLogger("kfetch.storage")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class Host:
    """A machine with one process, which takes the lease, commits for a while, and ends."""

    def __init__(self, world: World, number: int, plan: HostPlan) -> None:
        self.world = world
        self.name = f"h{number}"
        self.plan = plan
        self.clock = HostClock(world.kernel, plan.rate, plan.offset)
        self.file = LeaseFile(self, world.store)
        self.lease: HeldLease | None = None
        """What its process holds, as it thinks."""
        self.cut_until = 0.0
        self._kernel, self._draw = world.kernel, world.kernel.random
        self._process: Process | None = None
        self._runs = 0
        self._stopped_until = 0.0
        self._was_still = False
        """Whether the machine stood still during this run, of which its clock knows nothing."""
        self._seen_epoch: int | None = None
        """The lease's epoch at the last look for this micro-batch; None without one."""

    @property
    def holds(self) -> bool:
        """Whether its process may go on to write, as it thinks, and as its system lets it."""
        lease, process = self.lease, self._process
        if lease is None or process is None or not process.alive or self._was_still:
            return False
        if process.frozen and not self.plan.has_kernel_timer:
            return False
        return not lease._lost and self.clock.now() < lease.term.ends_at

    # What its process does

    def start(self) -> None:
        """Start a run, unless one lives."""
        if self._process is None or not self._process.alive:
            self._runs += 1
            self.lease, self._was_still = None, self.clock.stands_still
            self._process = self._kernel.spawn(f"{self.name}-{self._runs}")
            self._process.on_end(lambda: self._kernel.after(self._draw.uniform(1, 20), self.start))
            self._process.start(self._run)
            if self._kernel.now < self._stopped_until:
                self._process.freeze()

    def _run(self) -> None:
        holder = Holder(
            id=f"{self.name}-{self._runs}",
            host=self.name,
            machine=self.name,
            pid=self._runs,
            started=str(self._runs),
            purpose="run",
        )
        around = Surroundings(
            clock=self.clock.now,
            wall=lambda: self._kernel.wall,
            sleep=self.clock.sleep,
            life_of=self._life_of,
        )
        assert self._process is not None
        switch = Switch(
            self._kernel,
            self.clock,
            self._process,
            self._end_with_lease,
            by_kernel=self.plan.has_kernel_timer,
        )
        try:
            with take(self.file, holder, around=around, switch=switch) as lease:
                self.lease = lease
                end = self._kernel.now + self._draw.uniform(20, 300)
                while self._kernel.now < end and not lease.trouble():
                    self._micro_batch(lease)
                if lease.trouble():
                    self.world.note(self.name, f"ends: {lease.trouble()}")
                    self._process.kill()
                self.lease = None
            self.world.note(self.name, "has ended its run")
        except KfetchError as error:
            self.world.note(self.name, error.message)

    def _end_with_lease(self) -> None:
        assert self._process is not None
        self.world.note(self.name, "is ended with its lease")
        self._process.kill()

    def _micro_batch(self, lease: HeldLease) -> None:
        number = len(self.world.store.committed)
        self._kernel.sleep(self._draw.uniform(0.05, 3))
        if lease.trouble():
            return
        self._seen_epoch = None
        before_commit(lease)
        held = self._seen_epoch == lease.lease.epoch
        self._kernel.sleep(self._draw.uniform(0, 0.02))
        if self.world.store.epoch > lease.lease.epoch and not held:
            self.world.fail(f"{self.name} commits {number}, and another host has the lease")
        try:
            self.world.store.ask(self, lambda: self._commit(number))
        except OSError:
            self._kernel.sleep(1)

    def _commit(self, number: int) -> None:
        store = self.world.store
        if number not in store.committed:
            store.committed[number] = self.name
            store.last_commit_s = self._kernel.now

    def _life_of(self, holder: Holder) -> Life:
        if holder.machine != self.name:
            return Life.UNKNOWN
        return Life.ALIVE if holder.pid == self._runs else Life.DEAD

    def looked(self, epoch: int | None) -> None:
        """Its process has read the lease, which had this epoch then.

        None: the store did not answer. Then the term decides, so this counts as its own epoch.
        """
        self._seen_epoch = epoch or (self.lease.lease.epoch if self.lease else None)

    def writes(self, content: bytes) -> None:
        """Check that its process renews no lease that has ended."""
        after, lease = parse(content), self.lease
        if lease is None or after is None or after.holder is None or not after.renewals:
            return
        if self.clock.now() >= lease.term.ends_at:
            self.world.fail(f"{self.name} renews its lease after its end")

    # What happens to it

    def happen(self, event: Event) -> None:
        """Let trouble begin, and end later."""
        if event.kind == "cut":
            self.cut_until = max(self.cut_until, self._kernel.now + event.seconds)
        elif event.kind == "kill":
            if self._process is not None:
                self._process.kill()
        elif self._kernel.now >= self._stopped_until:  # else it is stopped already
            self._stopped_until = self._kernel.now + event.seconds
            if self._process is not None and self._process.alive:
                self._process.freeze()
            if event.kind == "pause":
                self._was_still = True
                self.clock.stop()
            self._kernel.after(event.seconds, self._go_on)

    def _go_on(self) -> None:
        self.clock.go_on()
        if self._process is not None:
            self._process.thaw()


def before_commit(lease: HeldLease) -> None:
    """Look at the lease right before a commit, as a run does."""
    lease.check()


assert LENGTH_S == 30.0, "the plan of trouble has been made for leases of half a minute"
