"""What goes wrong inside the agent fails tasks, and neither loses records nor memory."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.shared import SharedQuery
from kfetch.errors import AgentError
from kfetch.fetch.broker_reader import Arrival, BrokerReader
from tests.kfetch.agent.shared.helpers import T0, expected, options, part, read
from tests.kfetch.wire.little import LittleKafka


@pytest.mark.parametrize("where", ["_charged", "_deliver"])
def test_a_bug_fails_tasks_and_loses_nothing(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A ranges's position has moved when a reply is lost inside: its task fails, for good."""
    honest = getattr(BrokerThread, where)
    calls = []

    def once(self: BrokerThread, arrivals: Any) -> Any:
        calls.append(arrivals)
        if len(calls) == 2:
            raise ValueError("a bug")
        return honest(self, arrivals)

    monkeypatch.setattr(BrokerThread, where, once)

    with pytest.raises(AgentError, match="the agent failed: ValueError\\('a bug'\\)"):
        read(query, part(kafka, T0))
    assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    assert 0 == query._budget.used


def test_a_bug_in_the_lane_fails_tasks_that_are_done_there(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that the lane has left as read, but not handed out, fails too."""
    honest = BrokerReader.receive
    calls = []

    def lossy(self: BrokerReader, deadline: float) -> list[Arrival]:
        arrivals = honest(self, deadline)
        calls.append(arrivals)
        if len(calls) == 1:
            raise ValueError("a bug")
        return arrivals

    monkeypatch.setattr(BrokerReader, "receive", lossy)

    with pytest.raises(AgentError, match="a bug"):
        read(query, part(kafka, T0, end=2))


def test_a_thread_that_cannot_start_is_tried_again(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that finds no thread to be had fails; the next one gets a lane that lives."""

    def fails(_: BrokerThread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(SharedQuery("q", options(kafka), budget)) as query:
        with monkeypatch.context() as patch:
            patch.setattr(BrokerThread, "start", fails)
            with pytest.raises(RuntimeError):
                read(query, part(kafka, T0))

        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
