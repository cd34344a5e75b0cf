"""Metadata that tasks share: one request for all, and never an answer that is too old."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from kfetch.agent.shared_metadata import SharedMetadata
from kfetch.errors import ConnectionLost
from tests.kfetch.agent.helpers import options, wait_until
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Silence


@pytest.fixture
def metadata(kafka: LittleKafka) -> SharedMetadata:
    """Metadata of the topics t and u."""
    kafka.create("u")
    return SharedMetadata(options(kafka))


def soon() -> float:
    """A deadline."""
    return time.monotonic() + 60


def requested(kafka: LittleKafka) -> list[list[str]]:
    """The topics of each request."""
    return [[topic.name for topic in asked.topics] for asked in kafka.asked(MetadataRequest)]


def test_one_request_names_all_announced_topics(
    kafka: LittleKafka, metadata: SharedMetadata
) -> None:
    """The first task asks for the topics of all tasks that wait. The next one gets its answer."""
    metadata.announce("t")
    metadata.announce("u")
    since = time.monotonic()

    view = metadata.view({"t"}, since, soon())
    assert view is metadata.view({"u"}, since, soon())
    assert {"t", "u"} == view.topics.keys()
    assert [["t", "u"]] == requested(kafka)


def test_an_older_answer_does_not_count(kafka: LittleKafka, metadata: SharedMetadata) -> None:
    """A task that lost its leader after the last request asks again, with its own topics."""
    metadata.announce("t")
    metadata.view({"t"}, 0.0, soon())
    metadata.view({"t"}, time.monotonic(), soon())
    metadata.view({"u"}, 0.0, soon())

    assert [["t"], ["t"], ["u"]] == requested(kafka)


def test_tasks_wait_for_a_request_in_flight(kafka: LittleKafka, metadata: SharedMetadata) -> None:
    """While one task's request is in flight, the others wait for its answer."""
    since = time.monotonic()

    def slowly(request: Any) -> Any:
        time.sleep(0.05)
        return kafka.metadata(request)

    kafka.nodes[1].always(MetadataRequest, slowly)
    with ThreadPoolExecutor(8) as pool:
        views = [*pool.map(lambda _: metadata.view({"t"}, since, soon()), range(8))]

    assert 1 == len({id(view) for view in views})
    assert [["t"]] == requested(kafka)


def test_a_task_does_not_wait_past_its_deadline(
    kafka: LittleKafka, metadata: SharedMetadata
) -> None:
    """A silent broker holds up each task up to its own deadline. Then another task may ask."""
    kafka.nodes[1].answer(MetadataRequest, Silence())
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(metadata.view, {"t"}, 0.0, time.monotonic() + 1.5)
        assert wait_until(lambda: len(requested(kafka)) == 1)
        with pytest.raises(ConnectionLost, match="another task got no answer"):
            metadata.view({"t"}, 0.0, time.monotonic() + 0.05)
        with pytest.raises(ConnectionLost, match="no reply within the deadline"):
            slow.result()

    assert {"t"} == metadata.view({"t"}, 0.0, soon()).topics.keys()


def test_no_connection_stays_open(kafka: LittleKafka, metadata: SharedMetadata) -> None:
    """Between failovers there is no connection."""
    metadata.view({"t"}, 0.0, soon())

    assert wait_until(lambda: not kafka.nodes[1].streams)
