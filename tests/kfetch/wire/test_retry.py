"""Retries: growing pauses, a deadline, the clearest cause, and paced repairs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from kfetch.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectionLost,
    KfetchError,
    WireError,
    WrongListener,
)
from kfetch.options import NetworkOptions
from kfetch.spark.options import parse
from kfetch.wire.retry import PacedRepair, Retries, RetryPauses, Round, clearer, may_retry
from tests.kfetch.wire.helpers import OPTIONS, Clock


def test_a_later_hint_is_told(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong listener that shows after other causes gets its own warning, once, and the error."""
    hints = [WrongListener("h:1 expects TLS"), WrongListener("h:1 expects TLS")]
    causes = [ConnectionLost("refused"), *hints, *[ConnectionLost("closed")] * 10_000]
    with pytest.raises(WrongListener, match="the first cause: h:1 expects TLS"):
        asking(failing(*causes), OPTIONS, clock.now + 5)

    assert ["kfetch: refused", "kfetch: h:1 expects TLS"] == [
        text.partition(";")[0] for text in caplog.messages
    ]


def test_a_refused_log_in_is_told() -> None:
    """Nothing is clearer than an error after which no retry can help."""
    refused, wrong = AuthenticationFailed("x", retriable=False), WrongListener("y")

    assert refused is clearer(wrong, refused)
    assert refused is clearer(refused, wrong)
    assert not may_retry(refused)


def test_pauses_double(clock: Clock) -> None:
    """Pauses double up to the longest one, each within 20 %."""
    pauses = RetryPauses.of(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    assert all(pauses.wait(1000.0) for _ in range(6))

    expected = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    for expected_s, slept in zip(expected, clock.slept, strict=True):
        assert 0.8 * expected_s <= slept <= 1.2 * expected_s
    assert 6 == pauses.tries


def test_the_longest_pause_limits_the_first(clock: Clock) -> None:
    """If ``retry.backoff.ms`` is above ``retry.backoff.max.ms``, every pause is the longest one."""
    pauses = RetryPauses.of(NetworkOptions(retry_backoff_s=5.0, retry_backoff_max_s=0.1))
    assert all(pauses.wait(1000.0) for _ in range(3))

    assert all(0.08 <= slept <= 0.12 for slept in clock.slept)


def test_options_of_zero_are_no_hot_loop(clock: Clock) -> None:
    """With ``kafka.retry.backoff.ms=0`` retries have pauses, and the pauses double."""
    zero = {"kafka.retry.backoff.ms": "0", "kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    causes = [ConnectionLost("x")] * 100
    with pytest.raises(ConnectionLost):
        asking(failing(*causes), parse(zero).network, clock.now + 5)

    assert len(clock.slept) < 20


def test_a_new_fault_is_repaired_at_once_and_a_lasting_one_with_back_off() -> None:
    """In 10 s a lasting fault gets few repairs. A new fault waits for no pause of another one."""
    repair = PacedRepair(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    times = [100 + step / 100 for step in range(1000)]
    repairs = [now for now in times if repair.is_due(now, {"a"})]

    assert 100 == repairs[0]
    assert 10 <= len(repairs) <= 20
    assert repair.is_due(times[-1], {"a", "b"})
    assert not repair.is_due(times[-1], {"a", "b"})


def test_a_pause_begins_where_a_repair_ends() -> None:
    """Repairs that take longer than their pauses do not follow each other without a pause."""
    repair = PacedRepair(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    now, ends = 100.0, []
    while now < 200:
        if repair.is_due(now, {"a"}):
            now += 5.0
            repair.ended(now)
            ends.append(now)
        now += 0.01

    assert 15 < len(ends) < 20
    assert not repair.is_due(ends[-1] + 0.7, {"a"})


def test_repairs_start_again_after_calm() -> None:
    """A fault that comes back after the longest pause without faults is repaired at once."""
    repair = PacedRepair(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    assert repair.is_due(100.0, {"a"})
    assert not repair.is_due(100.05, ())
    assert not repair.is_due(100.06, {"a"})
    assert not repair.is_due(101.2, ())

    assert repair.is_due(101.21, {"a"})
    assert not repair.is_due(101.28, {"a"})


def test_no_pause_past_the_deadline(clock: Clock) -> None:
    """A pause that would pass the deadline is not begun."""
    pauses = RetryPauses.of(NetworkOptions(retry_backoff_s=0.1))

    assert pauses.wait(clock.now + 0.05) is False
    assert [] == clock.slept


def asking(attempt: Callable[[], str], options: NetworkOptions, deadline: float) -> str:
    """Asks by the plainest policy, up to a deadline."""
    return Retries(network=options).ask("asking", lambda _: attempt(), deadline)


def failing(*causes: KfetchError, then: str = "done") -> Callable[[], str]:
    """Raises one cause after the other, then works."""
    left = list(causes)

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return then

    return attempt


@pytest.mark.parametrize(
    "causes", [[], [ConnectionLost("a")], [ConnectionLost("a"), BrokerError("b", retriable=True)]]
)
def test_retrying_until_it_works(clock: Clock, causes: list[KfetchError]) -> None:
    """Lost connections and retriable errors are tried again, after a pause each."""
    assert "done" == asking(failing(*causes), OPTIONS, 1000.0)
    assert len(causes) == len(clock.slept)


@pytest.mark.parametrize(
    "cause",
    [BrokerError("final", retriable=False), BrokerError("final"), WireError("w"), KfetchError("k")],
)
def test_final_errors_are_not_retried(clock: Clock, cause: KfetchError) -> None:
    """Every other error is raised at once, as it is."""
    with pytest.raises(KfetchError) as caught:
        asking(failing(cause), OPTIONS, 1000.0)

    assert cause is caught.value
    assert [] == clock.slept


def test_giving_up_tells_the_first_cause(clock: Clock) -> None:
    """At the deadline the error is the first cause, in its own class, with its context."""
    causes = [BrokerError("first", code=6, retriable=True), *[ConnectionLost("x")] * 10_000]
    options = NetworkOptions(retry_backoff_s=1.0, retry_backoff_max_s=1.0)
    with pytest.raises(BrokerError) as caught:
        asking(failing(*causes), options, clock.now + 5)

    tries = len(clock.slept) + 1
    assert f"asking: no success in {tries} tries; the first cause: first" == caught.value.message
    assert {"code": 6, "retriable": True} == caught.value.where


@pytest.mark.parametrize(
    ("deadline_s", "give_up_after_s", "warned_s"),
    [(5, 5, "5"), (5, 9, "9"), (0, 0, None), (0, 9, "9")],
)
def test_no_more_time_is_promised_than_there_is(
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    deadline_s: int,
    give_up_after_s: int,
    warned_s: str | None,
) -> None:
    """The warning counts up to the end of the last round; without time left there is no warning."""
    now = Round(Retries(network=OPTIONS), clock.now + deadline_s, clock.now + give_up_after_s)
    with suppress(ConnectionLost):
        now.repeat("asking", failing(ConnectionLost("x")))

    expected = [] if warned_s is None else [f"kfetch: x; trying again for {warned_s} s"]
    assert expected == caplog.messages
