"""Taking, renewing, checking and releasing a lease, in virtual time; and the thread that renews."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from kfetch.errors import CheckpointError, CheckpointInUse, LeaseLost
from kfetch.storage.lease import Holder, Lease, Life, Sight, parse
from kfetch.storage.lease_holder import HeldLease, Surroundings, take
from kfetch.storage.versions import Version
from tests.kfetch.agent.helpers import wait_until
from tests.kfetch.storage.test_lease import HOLDER


@dataclass
class Memory:
    """A versioned file in memory, whose next requests may fail or lose their answers."""

    versions: list[bytes] = field(default_factory=list)
    fails: int = 0
    fails_to_write: int = 0
    loses: int = 0
    conditional: bool = True

    def __str__(self) -> str:
        return "s3a://lake/ck.lease"

    def read(self) -> Version | None:
        self._fail()
        return Version(str(len(self.versions)), self.versions[-1]) if self.versions else None

    def write(self, content: bytes, before: str | None) -> str | None:
        self._fail()
        if self.fails_to_write:
            self.fails_to_write -= 1
            raise OSError(5, "503 Slow Down")
        if before != (str(len(self.versions)) if self.versions else None):
            return str(len(self.versions)) if self.versions[-1] == content else None
        self.versions.append(content)
        if self.loses:
            self.loses -= 1
            raise OSError(5, "no answer")
        return str(len(self.versions))

    def is_conditional(self) -> bool:
        return self.conditional

    def _fail(self) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError(5, "503 Slow Down")


@dataclass
class World:
    """Virtual time, and what happens while somebody sleeps."""

    now: float = 1000.0
    lives: dict[str, Life] = field(default_factory=dict)
    events: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    ends: list[float | None] = field(default_factory=list)
    """When the kernel would end the process: each time that it was told, and None for never."""

    @property
    def around(self) -> Surroundings:
        return Surroundings(
            clock=lambda: self.now,
            wall=lambda: 1.8e9 + self.now,
            sleep=self._sleep,
            life_of=lambda holder: self.lives.get(holder.id, Life.UNKNOWN),
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()

    def end_in(self, seconds: float) -> None:
        self.ends.append(self.now + seconds)

    def close(self) -> None:
        self.ends.append(None)


OTHER = replace(HOLDER, id="b2", host="b")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def file() -> Memory:
    return Memory()


def taken(file: Memory, world: World, holder: Holder = HOLDER) -> HeldLease:
    return take(file, holder, around=world.around, switch=world)


def test_a_free_lease(file: Memory, world: World) -> None:
    """It is taken at once, and the kernel knows when the process ends without renewal."""
    lease = taken(file, world)
    lease.check()
    assert (1, "", [1030.0]) == (lease.lease.epoch, lease.trouble(), world.ends)


def test_a_released_lease(file: Memory, world: World) -> None:
    """It is free at once, the next epoch begins, and the kernel lets the process live."""
    first = taken(file, world)
    first.release()
    assert world.ends[-1] is None
    assert 2 == taken(file, world, OTHER).lease.epoch
    with pytest.raises(LeaseLost, match="released"):
        first.check()


def test_a_holder_that_lives_here(file: Memory, world: World) -> None:
    """It refuses the second one at once, in one sentence with object, host, process and time."""
    taken(file, world)
    world.lives[HOLDER.id] = Life.ALIVE
    with pytest.raises(CheckpointInUse) as refused:
        taken(file, world, OTHER)
    assert (
        "the lease s3a://lake/ck.lease is held by process 7 on host a (run of job x) since "
        "2027-01-15 08:16:40 UTC"
    ) == refused.value.what
    assert 1000.0 == world.now


def test_a_holder_that_died_here(file: Memory, world: World) -> None:
    """It is replaced at once."""
    taken(file, world)
    world.lives[HOLDER.id] = Life.DEAD
    assert 2 == taken(file, world, OTHER).lease.epoch
    assert 1000.0 == world.now


def test_a_holder_elsewhere_that_renews(file: Memory, world: World) -> None:
    """A waiter sees its sign of life, says for what it waits, and is refused."""
    first, reports = taken(file, world), list[str]()
    world.events.append((1010.0, first.renew))
    with pytest.raises(CheckpointInUse, match="is held by process 7 on host a"):
        take(file, OTHER, around=world.around, report=reports.append)
    assert 1010.0 <= world.now <= 1011.0
    [sentence] = reports
    assert sentence.endswith("Waiting for a sign of life, 40 s at most")


def test_a_holder_elsewhere_that_is_silent(file: Memory, world: World) -> None:
    """It is replaced after its lease and a margin, and may not write when it wakes."""
    first = taken(file, world)
    second = taken(file, world, OTHER)
    assert 1040.0 <= world.now <= 1041.0
    second.check()
    for action in (first.check, first.renew):
        with pytest.raises(LeaseLost, match="was not renewed within 30 s"):
            action()


def test_a_holder_whose_clock_stood_still(file: Memory, world: World) -> None:
    """A paused machine may think that no time has passed. The file tells that it has."""
    stopped = World()
    first = taken(file, stopped)
    taken(file, world, OTHER)
    assert "" == first.trouble()
    with pytest.raises(LeaseLost, match="another process has taken it"):
        first.check()
    assert "another process has taken it" in first.trouble()


def test_a_renewal(file: Memory, world: World) -> None:
    """It is due after a third of the lease, and moves the end."""
    lease = taken(file, world)
    assert 10.0 == lease.pause_s()
    world.now = 1010.0
    lease.renew()
    assert (10.0, [1030.0, 1040.0]) == (lease.pause_s(), world.ends)


def test_a_store_that_fails(file: Memory, world: World) -> None:
    """Renewals are repeated. The work stops after two thirds of the lease, before its end."""
    lease = taken(file, world)
    world.now, file.fails = 1010.0, 1
    with pytest.raises(OSError, match="503"):
        lease.renew()
    assert 2.0 == lease.pause_s()
    world.now = 1012.0
    assert 0.0 == lease.pause_s()
    world.now = 1019.9
    assert "" == lease.trouble()
    world.now = 1020.0
    assert "the lease s3a://lake/ck.lease could not be renewed (503 Slow Down)" == lease.trouble()
    lease.renew()  # counts from the first request on, so the next one is due at once
    assert 0.0 == lease.pause_s()
    lease.renew()
    assert ("", 1050.0) == (lease.trouble(), world.ends[-1])


def test_a_check_without_an_answer(file: Memory, world: World) -> None:
    """Within its term, the holder goes on. At its end, it does not."""
    lease = taken(file, world)
    world.now, file.fails = 1029.0, 2
    lease.check()
    world.now = 1030.0
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_renewal_whose_answer_is_lost(file: Memory, world: World) -> None:
    """It counts from its first request on: a waiter has seen the new version since then."""
    lease = taken(file, world)
    world.now, file.loses = 1010.0, 1
    with pytest.raises(OSError, match="no answer"):
        lease.renew()
    lease.check()
    world.now = 1018.0
    lease.renew()
    assert 1040.0 == world.ends[-1]
    assert 2 == len(file.versions)
    assert "" == lease.trouble()


def test_a_first_write_whose_answer_is_lost(file: Memory, world: World) -> None:
    """The process knows its lease again by the content, and counts from its first request on."""
    file.loses = 1
    lease = taken(file, world)
    assert (1, [1030.0]) == (len(file.versions), [lease.term.ends_at])


def test_two_that_take_at_once(file: Memory, world: World) -> None:
    """The one whose write is refused looks again, and finds the other one alive."""
    taken(file, world).release()
    world.lives[HOLDER.id] = Life.ALIVE
    original = Memory.write

    class Late(Memory):
        """A file into which the other process writes right before the first write."""

        def write(self, content: bytes, before: str | None) -> str | None:
            if len(self.versions) == 2:
                before_it = parse(self.versions[-1])
                assert before_it is not None
                original(self, replace(before_it, holder=HOLDER, epoch=2).content(), before)
            return original(self, content, before)

    with pytest.raises(CheckpointInUse, match="process 7 on host a"):
        taken(Late(file.versions), world, OTHER)


def test_a_damaged_lease(file: Memory, world: World) -> None:
    """Nobody knows its holder, so it is taken after the whole time."""
    file.versions.append(b"")
    lease = taken(file, world)
    assert (1, True) == (lease.lease.epoch, world.now >= 1040.0)


def test_a_store_that_never_answers(file: Memory, world: World) -> None:
    """The error comes after ten seconds, names the object, and says why it matters."""
    file.fails = 1000
    with pytest.raises(CheckpointError, match=r"ck\.lease can't be read: 503 Slow Down: without"):
        taken(file, world)
    assert 1010.0 <= world.now <= 1011.0


def test_a_store_without_conditions(file: Memory, world: World) -> None:
    """No lease can be held there, and the error says what the store must be able to do."""
    file.conditional = False
    with pytest.raises(CheckpointError, match="If-None-Match and If-Match"):
        taken(file, world)


def test_the_thread_renews(file: Memory) -> None:
    """A lease that is held in a block outlives its length, and is free behind the block."""
    renewed = threading.Event()

    class Watched(Memory):
        """A file that tells of its fifth version: three renewals."""

        def write(self, content: bytes, before: str | None) -> str | None:
            token = super().write(content, before)
            if len(self.versions) >= 4:
                renewed.set()
            return token

    watched = Watched()
    with take(watched, HOLDER, length_s=1.5) as lease:
        assert renewed.wait(60)
        lease.check()
    last = parse(watched.versions[-1])
    assert last is not None
    assert last.holder is None


def test_the_thread_ends_with_the_lease(file: Memory) -> None:
    """Behind a loss it writes nothing, and the block's end leaves the other's lease alone."""
    with take(file, HOLDER, length_s=0.3) as lease:
        file.versions.append(b"another process")
        assert wait_until(lambda: bool(lease.trouble()))
    assert b"another process" == file.versions[-1]


def test_the_thread_looks_between_renewals(file: Memory) -> None:
    """A take-over is noticed long before the next renewal, which is due in a third of the lease."""
    with take(file, HOLDER, length_s=60.0) as lease:
        file.versions.append(b"another process")
        assert wait_until(lambda: bool(lease.trouble()), 15)


def test_the_thread_repeats_a_renewal_that_failed(file: Memory) -> None:
    """One failed request costs no lease, although the thread looks at the file in between."""
    with take(file, HOLDER, length_s=6.0) as lease:
        file.fails_to_write = 1
        assert wait_until(lambda: len(file.versions) >= 3 or bool(lease.trouble()))
        assert "" == lease.trouble()


def test_a_release_after_a_renewal_without_an_answer(file: Memory, world: World) -> None:
    """The version in the file is the holder's own, so it is released, and nobody waits for it."""
    lease = taken(file, world)
    file.loses = 1
    with pytest.raises(OSError, match="no answer"):
        lease.renew()
    lease.release()
    last = parse(file.versions[-1])
    assert last is not None
    assert last.holder is None


def test_an_abandoned_lease(file: Memory, world: World) -> None:
    """The next holder takes over, as from one that died."""
    lease = taken(file, world)
    lease.abandon()
    lease.release()
    assert 1 == world.ends.count(None)
    world.lives[HOLDER.id] = Life.DEAD
    assert taken(file, world, OTHER).took_over


def test_a_store_that_is_slow(file: Memory, world: World) -> None:
    """If the lease has nearly ended before it is known to be held, that is an error. Without one,
    the kernel would end the process without a word."""

    class Slow(Memory):
        """A file that answers after 25 seconds."""

        def is_conditional(self) -> bool:
            world.now += 25.0
            return True

    with pytest.raises(CheckpointError, match="took so long to write the lease s3a://lake"):
        taken(Slow(), world)
    assert [None] == world.ends


class _GaveUp(Exception):
    """A waiter did not want to wait any longer."""


@pytest.mark.parametrize(
    ("life", "renews_until", "ends", "taken_at"),
    [
        (Life.UNKNOWN, 0, "", (1040, 1042)),  # silent
        (Life.UNKNOWN, 1100, "", (1140, 1143)),  # renews for a while
        (Life.ALIVE, 1020, "", (1060, 1063)),  # stopped on this machine
        (Life.UNKNOWN, 1100, "release", (1105, 1108)),
        (Life.ALIVE, 1100, "death", (1105, 1108)),
        (Life.ALIVE, 2000, "", None),
    ],
)
def test_waiting_for_a_living_holder(
    file: Memory,
    world: World,
    life: Life,
    renews_until: int,
    ends: str,
    taken_at: tuple[int, int] | None,
) -> None:
    """A waiter is not refused. It takes over a moment after the lease was released, or its holder
    died here, and else four thirds of a lease after the last renewal that it saw."""
    first = taken(file, world)
    world.lives[HOLDER.id] = life
    world.events += [(float(at), first.renew) for at in range(1010, renews_until + 1, 10)]
    if ends == "release":
        world.events.append((1105.0, first.release))
    if ends == "death":
        world.events.append((1105.0, lambda: world.lives.update({HOLDER.id: Life.DEAD})))

    def wait(sight: Sight) -> None:
        if world.now > 1200:
            raise _GaveUp
        world._sleep(2.0)

    if taken_at is None:
        with pytest.raises(_GaveUp):
            take(file, OTHER, around=world.around, wait=wait)
        return
    lease = take(file, OTHER, around=world.around, wait=wait)
    assert 2 == lease.lease.epoch
    assert taken_at[0] <= world.now <= taken_at[1]


def test_many_wait(file: Memory, world: World) -> None:
    """A waiter that loses the lease to others goes on to wait, however often that happens."""
    lost: list[int] = []

    class Contested(Memory):
        def write(self, content: bytes, before: str | None) -> str | None:
            if len(lost) < 10:  # another waiter is faster, and ends soon
                lost.append(1)
                other = replace(OTHER, id=f"c{len(lost)}")
                world.lives[other.id] = Life.DEAD
                super().write(
                    Lease(epoch=1, holder=other, since_s=0.0, length_s=30.0).content(), before
                )
            return super().write(content, before)

    take(Contested(), OTHER, around=world.around, wait=lambda _: None)
    assert 10 == len(lost)


@pytest.mark.parametrize(
    ("token", "at", "taken_at"),
    [("1", 1000, 1040), ("1", 990, 1030), ("1", 900, 1000), ("0", 900, 1040)],
)
def test_what_another_process_has_seen(
    file: Memory, world: World, token: str, at: float, taken_at: float
) -> None:
    """A waiter counts from there if the lease is still the same version, and else from now on."""
    noted = Sight(token, taken(file, world).lease, at)
    take(file, OTHER, around=world.around, noted=noted)
    assert taken_at <= world.now <= taken_at + 1
