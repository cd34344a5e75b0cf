"""The file of ``kfetch.brokerReport``: a broker that is away is there within a moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.errors import ConnectionLost
from kfetch.watch import broker_report, watch
from kfetch.watch.broker_report import BrokerReport
from tests.kfetch.watch.helpers import T0, query
from tests.kfetch.watch.live_query import Query
from tests.kfetch.wire.little import LittleKafka


def names(path: Path) -> list[str]:
    """The unreachable ones."""
    return [one["name"] for one in json.loads(path.read_text())["unreachable"]]


def first_broker(kafka: LittleKafka) -> str:
    """Broker 1's name in the report."""
    return f"broker 1 (127.0.0.1:{kafka.nodes[1].port})"


def test_the_file(tmp_path: Path) -> None:
    """The driver's start clears an older report. The first cause and its time stay."""
    path, at = tmp_path / "new" / "brokers.json", iter(range(10, 99))
    path.parent.mkdir()
    path.write_text("{}")
    report = BrokerReport(str(path), lambda: float(next(at)))
    assert {"at": 10.0, "unreachable": [], "backlog": None} == json.loads(path.read_text())

    report.lost(1, "broker 1", "refused")
    report.lost(1, "broker 1", "timed out")
    entry = {"name": "broker 1", "since": 11.0, "cause": "refused"}
    assert {"at": 12.0, "unreachable": [entry], "backlog": None} == json.loads(path.read_text())

    report.answered(1)
    report.answered(1)
    assert {"at": 13.0, "unreachable": [], "backlog": None} == json.loads(path.read_text())
    assert ["brokers.json"] == [one.name for one in path.parent.iterdir()]


def test_an_outage_of_the_whole_cluster(tmp_path: Path) -> None:
    """One sentence covers the single brokers, since the first of them."""
    path, at = tmp_path / "brokers.json", iter(range(10, 99))
    report = BrokerReport(str(path), lambda: float(next(at)))
    report.lost(1, "broker 1", "refused")
    report.lost(broker_report.EVERY_BROKER, "every broker (h:9092)", "refused")
    entry = {"name": "every broker (h:9092)", "since": 11.0, "cause": "refused"}
    assert [entry] == json.loads(path.read_text())["unreachable"]

    report.answered(broker_report.EVERY_BROKER)
    assert ["broker 1"] == names(path)


def test_records_that_come_while_a_micro_batch_runs(
    tmp_path: Path, kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report counts the offsets of the running micro-batch, and those that came meanwhile."""
    monkeypatch.setattr(broker_report, "_PERIOD_S", 0.0)
    monkeypatch.setattr(broker_report, "_SHARE", float("inf"))
    path = tmp_path / "brokers.json"
    driver = query(kafka, kfetch__brokerReport=str(path))

    def backlog() -> list[float | None]:
        driver._watch.take_changed()  # as its threads do while Spark runs the micro-batch
        told = json.loads(path.read_text())["backlog"]
        assert (told["behind"] > 0) == (told["behind_since"] is not None)
        return [told[name] for name in ("planned", "behind", "end")]

    start = driver.initial_offsets()
    end = driver.next_end(start, 2)
    assert end is not None
    driver.splits(start, end)
    assert [2, 2, 2] == backlog()
    kafka.log(T0).append(b"d", b"e")
    assert [2, 4, 2] == backlog()

    all_of_it = driver.next_end(end, None)
    assert all_of_it is not None
    assert [4, 0, 6] == backlog()
    assert driver.next_end(all_of_it, None) is None
    assert [0, 0, 6] == backlog()


def test_no_broker_at_the_start(tmp_path: Path, kafka: LittleKafka) -> None:
    """While the driver still tries, the report says that no broker answers."""
    path = tmp_path / "brokers.json"
    driver = query(kafka, kfetch__brokerReport=str(path), kafka__request__timeout__ms="50")
    for node in kafka.nodes.values():
        node.stop()
    with pytest.raises(ConnectionLost):
        driver.initial_offsets()
    assert [f"every broker ({kafka.bootstrap})"] == names(path)

    for node in kafka.nodes.values():
        node.start()
    deadline = time.monotonic() + 60
    while names(path) and time.monotonic() < deadline:
        with suppress(ConnectionLost):  # the time limit is short for a busy machine
            driver.initial_offsets()
    assert [] == names(path)


def test_a_broker_that_goes_away(tmp_path: Path, kafka: LittleKafka, watched: Any) -> None:
    """The report names it at once, and until its return."""
    path = tmp_path / "brokers.json"
    query: Query = watched()
    query.watch.report = BrokerReport(str(path))
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    kafka.nodes[1].stop()
    query.until(lambda: names(path))
    assert [first_broker(kafka)] == names(path)

    kafka.nodes[1].start()
    query.until(lambda: not names(path))


def test_a_broker_that_says_nothing(
    tmp_path: Path,
    kafka: LittleKafka,
    watched: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frozen broker keeps its connections. The report names it long before the deadline."""
    path = tmp_path / "brokers.json"
    query: Query = watched()
    query.watch.report = BrokerReport(str(path))
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    monkeypatch.setattr(watch, "_SILENT_S", 0.05)
    answer: Callable[[Any], Any] = kafka.nodes[1].handlers[FetchRequest]

    def late(request: Any) -> Any:
        time.sleep(0.2)
        return answer(request)

    kafka.nodes[1].always(FetchRequest, late)
    query.until(lambda: first_broker(kafka) in names(path))

    kafka.nodes[1].always(FetchRequest, answer)
    query.until(lambda: not names(path))


def test_a_broker_that_throttles(
    tmp_path: Path,
    kafka: LittleKafka,
    watched: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watch waits for the throttle time before it asks: such a broker is not silent."""
    path = tmp_path / "brokers.json"
    answer: Callable[[Any], Any] = kafka.nodes[1].handlers[FetchRequest]

    def throttled(request: Any) -> Any:
        reply = answer(request)
        reply.throttle_time_ms = 60_000
        return reply

    kafka.nodes[1].always(FetchRequest, throttled)
    query: Query = watched()
    query.watch.report = BrokerReport(str(path))
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    monkeypatch.setattr(watch, "_SILENT_S", 0.02)
    polls = len(kafka.asked(FetchRequest))
    query.until(lambda: len(kafka.asked(FetchRequest)) > polls + 5)
    poller = next(poller for b, poller in query.pollers.items() if b.node_id == 1)

    assert poller.asked_at is None
    assert not path.exists() or first_broker(kafka) not in names(
        path
    )  # a busy machine is silent, too


def test_a_partition_without_a_leader(tmp_path: Path, kafka: LittleKafka, watched: Any) -> None:
    """A broker that the cluster has given up leaves partitions without a leader: they are named."""
    path = tmp_path / "brokers.json"
    query: Query = watched()
    query.watch.report = BrokerReport(str(path))
    kafka.elect(T0, None)
    query.refresh_metadata()
    assert ["the leader of t-0"] == names(path)

    kafka.elect(T0, 2)
    query.refresh_metadata()
    assert [] == names(path)
