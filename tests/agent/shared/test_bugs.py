"""What goes wrong inside the agent fails tasks, and neither loses records nor memory."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from wire.little import LittleKafka

from spark_source.agent.budget import Budget
from spark_source.agent.lane import Arrival, Lane
from spark_source.agent.lane_thread import LaneThread
from spark_source.agent.shared import SharedQuery
from spark_source.errors import AgentError

from .helpers import T0, expected, options, part, read


@pytest.mark.parametrize("where", ["_charged", "_deliver"])
def test_a_bug_fails_tasks_and_loses_nothing(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A ranges's position has moved when a reply is lost inside: its task fails, for good."""
    honest = getattr(LaneThread, where)
    calls = []

    def once(self: LaneThread, arrivals: Any) -> Any:
        calls.append(arrivals)
        if len(calls) == 2:
            raise ValueError("a bug")
        return honest(self, arrivals)

    monkeypatch.setattr(LaneThread, where, once)

    with pytest.raises(AgentError, match="the agent failed: ValueError\\('a bug'\\)"):
        read(query, part(kafka, T0))
    assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
    assert 0 == query._budget.used


def test_a_bug_in_the_lane_fails_tasks_that_are_done_there(
    kafka: LittleKafka, query: SharedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that the lane has left as read, but not handed out, fails too."""
    honest = Lane.receive
    calls = []

    def lossy(self: Lane, deadline: float) -> list[Arrival]:
        arrivals = honest(self, deadline)
        calls.append(arrivals)
        if len(calls) == 1:
            raise ValueError("a bug")
        return arrivals

    monkeypatch.setattr(Lane, "receive", lossy)

    with pytest.raises(AgentError, match="a bug"):
        read(query, part(kafka, T0, end=2))


def test_a_thread_that_cannot_start_is_tried_again(
    kafka: LittleKafka, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that finds no thread to be had fails; the next one gets a lane that lives."""

    def fails(_: LaneThread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(SharedQuery("q", options(kafka), budget)) as query:
        with monkeypatch.context() as patch:
            patch.setattr(LaneThread, "start", fails)
            with pytest.raises(RuntimeError):
                read(query, part(kafka, T0))

        assert expected(kafka, part(kafka, T0)) == read(query, part(kafka, T0))
