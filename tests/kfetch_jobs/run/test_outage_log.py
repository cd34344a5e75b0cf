"""What a run's log says of an outage."""

from __future__ import annotations

import pytest

from kfetch_jobs.progress.broker_report import Unreachable
from kfetch_jobs.run.watching import OutageLog

BROKER = Unreachable(name="broker 1 (h:9092)", since_at=100.0, cause="refused")


def test_an_outage_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the outage with its cause, and its end with its length. An election has none."""
    unreachable: list[Unreachable] = [BROKER]
    log = OutageLog(lambda: tuple(unreachable))
    log.look(101.0)
    assert [] == caplog.messages
    for now in (102.0, 104.0, 150.0):
        log.look(now)
    unreachable.clear()
    for now in (196.0, 198.0):
        log.look(now)

    assert [
        "broker 1 (h:9092) unreachable since 1970-01-01 00:01:40 UTC: refused",
        "broker 1 (h:9092) can be reached again, after 96 s",
    ] == caplog.messages


def test_an_outage_that_grows(caplog: pytest.LogCaptureFixture) -> None:
    """While no broker answers, none of them is said to be back."""
    whole = Unreachable(name="every broker (h:9092)", since_at=100.0, cause="refused")
    steps = iter([(BROKER,), (whole,), (BROKER,), ()])
    log = OutageLog(lambda: next(steps))
    for now in (102.0, 104.0, 110.0, 112.0):
        log.look(now)

    assert [
        "broker 1 (h:9092) unreachable since 1970-01-01 00:01:40 UTC: refused",
        "every broker (h:9092) unreachable since 1970-01-01 00:01:40 UTC: refused",
        "every broker (h:9092) can be reached again, after 10 s",
        "broker 1 (h:9092) can be reached again, after 12 s",
    ] == caplog.messages
