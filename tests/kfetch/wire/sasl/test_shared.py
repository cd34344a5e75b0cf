"""Shared values: fetched once for all callers, renewed in time, and never waited for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.wire.sasl import shared
from kfetch.wire.sasl.shared import Fetched, Shared, within


class Wall:
    """The clock of tokens: Unix time stands still, deadlines are real."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.monotonic = time.monotonic

    def time(self) -> float:
        return self.now


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """A clock that the test moves."""
    made = Wall()
    monkeypatch.setattr(shared, "time", made)
    return made


def soon(seconds: float = 60.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


class Source:
    """Counts its fetches; ``failure`` is raised by the next ones."""

    def __init__(self, wall: Wall) -> None:
        self.fetches = 0
        self.failure: Exception | None = None
        self._wall = wall

    def __call__(self, _deadline: float) -> Fetched[str]:
        self.fetches += 1
        if self.failure is not None:
            raise self.failure
        now = self._wall.now
        return Fetched(value=f"v{self.fetches}", renew_at=now + 80, expires_at=now + 100)


def test_many_callers_fetch_once(wall: Wall) -> None:
    """Callers that come during a fetch wait for it, and those after it have it."""
    release, fetches = threading.Event(), []

    def fetch(_deadline: float) -> Fetched[str]:
        fetches.append(1)
        release.wait(60)
        return Fetched(value="v", renew_at=wall.now + 80, expires_at=wall.now + 100)

    values: Shared[str] = Shared("a value")
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(values.get, "k", fetch, soon()) for _ in range(20)]
        release.set()
        assert ["v"] * 20 == [each.result() for each in waiting]
    assert "v" == values.get("k", fetch, soon())

    assert 1 == len(fetches)


def test_equal_keys_alone_share(wall: Wall) -> None:
    """Another key has a value of its own."""
    values: Shared[str] = Shared("a value")
    source = Source(wall)

    assert ["v1", "v2", "v1"] == [values.get(key, source, soon()) for key in ("a", "b", "a")]


def test_a_value_is_renewed_before_it_expires(wall: Wall) -> None:
    """At its renewal time a caller fetches a new one."""
    values, source = Shared[str]("a value"), Source(wall)
    values.get("k", source, soon())
    wall.now += 79
    assert "v1" == values.get("k", source, soon())
    wall.now += 1
    assert "v2" == values.get("k", source, soon())


def test_a_failed_renewal_is_a_warning(wall: Wall, caplog: pytest.LogCaptureFixture) -> None:
    """While the old value is valid, it serves, and the source has ten seconds of peace."""
    values, source = Shared[str]("a value"), Source(wall)
    values.get("k", source, soon())
    source.failure = TokenUnavailable("the endpoint is away")
    wall.now += 85
    assert ["v1", "v1"] == [values.get("k", source, soon()) for _ in range(2)]
    assert 2 == source.fetches
    assert "the endpoint is away; the old one is valid for a while" in caplog.text
    wall.now += 16
    with pytest.raises(TokenUnavailable, match="the endpoint is away"):
        values.get("k", source, soon())


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (AuthenticationFailed("no such client", retriable=False), "no such client"),
        (LookupError("hush"), "LookupError"),
    ],
)
def test_no_error_replaces_a_valid_value(
    wall: Wall, caplog: pytest.LogCaptureFixture, failure: Exception, words: str
) -> None:
    """A refusal may pass, and the old value is valid. After its end the error is raised."""
    values, source = Shared[str]("a value"), Source(wall)
    values.get("k", source, soon())
    source.failure = failure
    wall.now += 85
    assert ["v1", "v1"] == [values.get("k", source, soon()) for _ in range(2)]
    assert 2 == source.fetches
    assert f"{words}; the old one is valid for a while" in caplog.text
    assert "hush" not in caplog.text
    wall.now += 16
    with pytest.raises(type(failure)):
        values.get("k", source, soon())


def test_the_peace_begins_after_a_long_renewal(wall: Wall) -> None:
    """A renewal that fails after 11 s is not tried again at once."""
    values, source = Shared[str]("a value"), Source(wall)
    values.get("k", source, soon())
    renewals = []

    def slow(_deadline: float) -> Fetched[str]:
        renewals.append(wall.now)
        wall.now += 11
        raise TokenUnavailable("away")

    wall.now += 80
    assert ["v1", "v1"] == [values.get("k", slow, soon()) for _ in range(2)]
    assert 1 == len(renewals)


def test_a_value_that_expires_during_its_renewal_is_not_returned(wall: Wall) -> None:
    """The wait for a renewal counts, too."""
    values, source = Shared[str]("a value"), Source(wall)
    values.get("k", source, soon())

    def slow(_deadline: float) -> Fetched[str]:
        wall.now += 30
        raise TokenUnavailable("away")

    wall.now += 80
    with pytest.raises(TokenUnavailable):
        values.get("k", slow, soon())


def test_a_value_is_forgotten_only_if_it_is_that_one(wall: Wall) -> None:
    """A caller with an old value does not forget the one that another caller has fetched. It learns
    whether it may find a newer one than that of ``since``."""
    values, source, since = Shared[str]("a value"), Source(wall), time.monotonic()
    assert not values.forget("k", "v1", since)
    values.get("k", source, soon())
    assert values.forget("k", "v0", since)
    assert not values.forget("other", "v1", since)
    assert "v1" == values.get("k", source, soon())
    assert not values.forget("k", "v1", since)
    assert values.forget("k", "v1", since)
    assert "v2" == values.get("k", source, soon())
    assert values.forget("k", "v2", time.monotonic() + 1)


def test_an_error_is_not_kept(wall: Wall) -> None:
    """The next caller asks again."""
    values, source = Shared[str]("a value"), Source(wall)
    source.failure = TokenUnavailable("away")
    with pytest.raises(TokenUnavailable):
        values.get("k", source, soon())
    source.failure = None

    assert "v2" == values.get("k", source, soon())


def hanging(release: threading.Event) -> Callable[[float], Fetched[str]]:
    """A source that answers when the test says so."""

    def fetch(_deadline: float) -> Fetched[str]:
        release.wait(60)
        return Fetched(value="late", renew_at=2e9, expires_at=2e9)

    return fetch


def test_a_source_that_hangs_costs_its_callers_their_deadline_alone(wall: Wall) -> None:
    """Each caller gives up at its own deadline, one thread hangs, and other keys go on."""
    release, values = threading.Event(), Shared[str]("a value")
    fetch = hanging(release)
    threads = set(threading.enumerate())  # those of earlier tests may end meanwhile
    for _ in range(3):
        with pytest.raises(TokenUnavailable, match="a value did not come within the deadline"):
            values.get("k", fetch, soon(0.02))
    assert 1 == len(set(threading.enumerate()) - threads)
    assert "v1" == values.get("other", Source(wall), soon(0.5))
    release.set()

    assert "late" == values.get("k", fetch, soon())


def test_a_fetch_learns_a_deadline_before_its_callers(wall: Wall) -> None:
    """So the caller hears the cause of the failure, and not that time is over."""
    seen = []

    def fetch(deadline: float) -> Fetched[str]:
        seen.append(deadline)
        return Fetched(value="v", renew_at=2e9, expires_at=2e9)

    until = soon(10)
    Shared[str]("a value").get("k", fetch, until)

    assert until - 2 < seen[0] < until


def test_the_number_of_values_has_a_limit(wall: Wall) -> None:
    """A process that reads with ever new settings does not keep all."""
    values, source = Shared[str]("a value"), Source(wall)
    for key in range(500):
        values.get(key, source, soon())

    assert len(values._entries) <= 101


def test_a_call_within_a_deadline() -> None:
    """Its result, its own error, or TokenUnavailable when time is over."""
    release = threading.Event()

    def fail() -> None:
        raise LookupError("x")

    assert 3 == within("a ticket", lambda: 3, soon())
    with pytest.raises(LookupError):
        within("a ticket", fail, soon())
    with pytest.raises(TokenUnavailable, match="a ticket did not come within the deadline"):
        within("a ticket", lambda: release.wait(60), soon(0.02))
    release.set()


def test_a_fetch_that_hangs_for_ever_is_replaced(
    wall: Wall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers do not wait for it for ever. They leave one more thread behind after each pause."""
    release, source, started = threading.Event(), Source(wall), []
    now = 0.0

    def hangs(deadline: float) -> Fetched[str]:
        started.append(now)
        release.wait(60)
        return Fetched(value="late", renew_at=wall.now + 8, expires_at=wall.now + 10)

    monkeypatch.setattr(wall, "monotonic", lambda: now)
    values: Shared[str] = Shared("a value")
    for now in map(float, range(0, 400, 10)):
        with pytest.raises(TokenUnavailable, match="did not come within the deadline"):
            values.get("k", hangs, now)

    assert [0, 60, 180] == started
    assert 2 == caplog.text.count("the last try to get a value hangs; kfetch starts another")
    now = 420.0
    assert "v1" == values.get("k", source, now + 10)
    release.set()
    wait_for_threads()
    assert "v1" == values.get("k", source, now + 10)


def test_a_renewal_may_bring_a_shorter_lifetime(wall: Wall) -> None:
    """Its value replaces the old one, which would expire later. Or each log-in would fetch anew."""
    values, source = Shared[str]("a value"), Source(wall)
    until = wall.now + 1000
    values.get("k", lambda _: Fetched(value="old", renew_at=wall.now, expires_at=until), soon())

    assert ["v1", "v1", "v1"] == [values.get("k", source, soon()) for _ in range(3)]
    assert 1 == source.fetches


def wait_for_threads() -> None:
    """Wait until every fetch has ended."""
    for thread in threading.enumerate():
        if thread.name == "kfetch-token":
            thread.join(60)
