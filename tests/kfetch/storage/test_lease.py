"""The rules of a lease, and that they leave one holder at a time on hosts with different clocks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.storage.lease import (
    LENGTH_MAX_S,
    LENGTH_S,
    Decision,
    Holder,
    Lease,
    Life,
    Sight,
    Term,
    judge,
    parse,
    seen,
    taken,
)

HOLDER = Holder(id="a1", host="a", machine="boot 1", pid=7, started="99", purpose="run of job x")
HELD = Lease(epoch=3, holder=HOLDER, since_s=1.8e9, length_s=30.0, renewals=4)
FREE = HELD.released(1.8e9)
FIRST = Sight("t1", HELD, at=100.0)


@pytest.mark.parametrize("lease", [HELD, FREE])
def test_content(lease: Lease) -> None:
    """A lease is what its content says, and the versions of one holder all differ."""
    assert lease == parse(lease.content())
    assert lease.content() != lease.renewed().content()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"epoch": 1}', HELD.content()[:-30], b"[" * 100_000]
    + [
        replace(HELD, **{name: value}).content()
        for name, value in [
            ("length_s", float("nan")),
            ("length_s", -1.0),
            ("since_s", float("nan")),
            ("since_s", 1e300),
        ]
    ],
)
def test_damaged_content(content: bytes) -> None:
    """It has no holder that anybody knows, and no error: a power failure may leave it."""
    assert parse(content) is None


def test_a_length_beyond_belief() -> None:
    """A waiter does not wait for ever."""
    lease = parse(replace(HELD, length_s=1e300).content())
    assert lease is not None
    assert LENGTH_MAX_S == lease.length_s


@pytest.mark.parametrize(
    ("sight", "life", "now", "verdict"),
    [
        (Sight("t1", FREE, 100.0), Life.UNKNOWN, 100.0, Decision.TAKE),
        (Sight("t2", FREE, 110.0), Life.ALIVE, 110.0, Decision.TAKE),
        (FIRST, Life.DEAD, 100.0, Decision.TAKE),
        (FIRST, Life.ALIVE, 100.0, Decision.REFUSE),
        (FIRST, Life.ALIVE, 999.0, Decision.REFUSE),
        (FIRST, Life.UNKNOWN, 100.0, Decision.WAIT),
        (FIRST, Life.UNKNOWN, 139.9, Decision.WAIT),
        (FIRST, Life.UNKNOWN, 140.0, Decision.TAKE),
        (Sight("t2", HELD, 110.0), Life.UNKNOWN, 110.0, Decision.REFUSE),
        (Sight("t2", HELD, 110.0), Life.DEAD, 110.0, Decision.TAKE),
        (Sight("t2", None, 110.0), Life.UNKNOWN, 110.0, Decision.REFUSE),
        (Sight("t1", None, 100.0), Life.UNKNOWN, 100.0 + LENGTH_S, Decision.WAIT),
        (Sight("t1", None, 100.0), Life.UNKNOWN, 100.1 + LENGTH_S * 4 / 3, Decision.TAKE),
    ],
)
def test_verdicts(sight: Sight, life: Life, now: float, verdict: Decision) -> None:
    """A waiter takes what is free, dead or silent, and refuses what lives."""
    assert verdict is judge(FIRST, sight, life, now)


def test_only_a_new_version_starts_the_wait_again() -> None:
    """The time of a version is that of its first sight."""
    first = seen(None, "t1", HELD.content(), 100.0)
    assert first == seen(first, "t1", HELD.content(), 120.0)
    assert 130.0 == seen(first, "t2", HELD.renewed().content(), 130.0).at


def test_a_version_that_was_read_half_written() -> None:
    """Without hard links a version is empty for a moment. The wait for it goes on, and its content
    counts as soon as it is there."""
    empty = seen(None, "t1", b"", 100.0)
    assert empty.lease is None
    assert Sight("t1", HELD, 100.0) == seen(empty, "t1", HELD.content(), 120.0)


def test_a_lease_of_another_life() -> None:
    """On disks a token is only a number, so a new lease may have that of an old one. The holder
    tells them apart."""
    other = replace(HELD, holder=replace(HOLDER, id="b2"))
    before = Sight("5", HELD, 100.0)
    assert Sight("5", other, 120.0) == seen(before, "5", other.content(), 120.0)


def test_epochs_grow() -> None:
    """Each holder has the next one, also behind a released lease."""
    first = taken(None, HOLDER, 30.0, 0.0)
    assert (1, 2, 3) == (
        first.epoch,
        taken(first, HOLDER, 30.0, 0.0).epoch,
        taken(taken(first, HOLDER, 30.0, 0.0).released(1.0), HOLDER, 30.0, 0.0).epoch,
    )


def test_the_order_of_a_term() -> None:
    """A holder renews, then stops its work, and then the lease ends, before any waiter takes it."""
    term = Term(0.0, 30.0)
    ends = [0.0, term.renew_at, term.stop_at, term.ends_at, Sight("t", HELD, 0.0).ends_at()]
    assert ends == sorted(set(ends))
    assert term.retry_s < term.stop_at - term.renew_at


# A model of several hosts. Time is the model's own. The clocks of hosts run up to 5 % faster or
# slower. A host takes a step when it is drawn, so between two steps it may be frozen.


@dataclass
class File:
    """A file with conditional writes, in memory."""

    content: bytes = b""
    token: int = 0

    def write(self, content: bytes, before: int) -> int | None:
        if self.token != before:
            return self.token if self.content == content else None
        self.content, self.token = content, self.token + 1
        return self.token


@dataclass
class Host:
    """A host that takes the lease as soon as the rules allow it, and renews it."""

    name: str
    rate: float
    clock: float = 0.0
    first: Sight | None = None
    sight: Sight | None = None
    lease: Lease | None = None
    token: int = 0
    term: Term = field(default_factory=lambda: Term(0.0, 0.0))
    asked_at: float | None = None

    def works(self) -> bool:
        """Whether the host may write now, by its own clock."""
        return self.lease is not None and self.clock < self.term.ends_at

    def step(self, file: File, *, lost: bool) -> None:
        """Look, take or renew. If ``lost``, the write is carried out and its answer is not."""
        if self.lease is None:
            self._ask(file, lost=lost)
        elif self.clock >= self.term.ends_at:
            self._forget()
        elif self.clock >= self.term.renew_at:
            self._renew(file, lost=lost)

    def _ask(self, file: File, *, lost: bool) -> None:
        before = 0
        if file.token:
            self.sight = seen(self.sight, str(file.token), file.content, self.clock)
            self.first = self.first or self.sight
            verdict = judge(self.first, self.sight, Life.UNKNOWN, self.clock)
            if verdict is Decision.REFUSE:
                self.first = self.sight = None  # the user runs the command again
            if verdict is not Decision.TAKE:
                return
            before = file.token
        holder = replace(HOLDER, host=self.name)
        lease = taken(self.sight.lease if self.sight else None, holder, LENGTH_S, self.clock)
        token = file.write(lease.content(), before)
        if token is not None and not lost:
            self.lease, self.token, self.term = lease, token, Term(self.clock, LENGTH_S)
        self.first = self.sight = None

    def _renew(self, file: File, *, lost: bool) -> None:
        assert self.lease is not None
        following = self.lease.renewed()
        self.asked_at = self.asked_at or self.clock
        token = file.write(following.content(), self.token)
        if token is None:
            self._forget()
        elif not lost:
            self.lease, self.token = following, token
            self.term, self.asked_at = Term(self.asked_at, LENGTH_S), None

    def _forget(self) -> None:
        self.lease = self.asked_at = None


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.1, 1.0, 4.0, 9.0, 25.0]),
        st.sets(st.integers(0, 2)),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=20,
    max_size=120,
)


@given(steps=STEPS, rates=st.tuples(*[st.floats(0.95, 1.05)] * 3))
def test_one_holder_at_a_time(
    steps: list[tuple[float, set[int], bool]], rates: tuple[float, float, float]
) -> None:
    """Whoever is frozen for how long, whatever answer is lost, two hosts never may write at once.

    And the epochs of the file never fall.
    """
    file = File()
    hosts = [Host(str(number), rate) for number, rate in enumerate(rates)]
    epoch = 0
    for passes, acting, lost in steps:
        for host in hosts:
            host.clock += passes * host.rate
        for number in sorted(acting):
            hosts[number].step(file, lost=lost)
            working = [host.name for host in hosts if host.works()]
            assert len(working) <= 1, working
        lease = parse(file.content)
        if lease is not None:
            assert lease.epoch >= epoch
            epoch = lease.epoch


@given(rate=st.floats(0.95, 1.05), look=st.floats(0.1, 1.0))
def test_a_dead_holder_is_replaced(rate: float, look: float) -> None:
    """Within four thirds of a lease, by the waiter's clock, and one look."""
    file, dead, waiter = File(), Host("dead", 1.0), Host("waiter", rate)
    dead.step(file, lost=False)
    began = waiter.clock
    while not waiter.works():
        waiter.clock += look
        waiter.step(file, lost=False)
    assert LENGTH_S * 4 / 3 - 0.01 <= waiter.clock - began <= LENGTH_S * 4 / 3 + 2 * look + 0.01
