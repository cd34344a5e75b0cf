"""A watch and its failures: brokers that are away, refusals that last, bugs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import AuthenticationFailed, BrokerError, ConnectionLost
from kfetch.offsets import Position
from kfetch.watch import watch as watching
from kfetch.watch.broker_report import BrokerReport
from kfetch.watch.driver import Driver
from kfetch.wire import probes
from tests.kfetch.watch.helpers import T0, T1, logged, read
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close

pytestmark = pytest.mark.usefixtures("quick")


def test_one_broker_down(kafka: LittleKafka, watched: Any) -> None:
    """While a broker is down, the others continue. After its return its log ends move again."""
    query = watched()
    query.until(lambda: kafka.sessions(1) and kafka.sessions(2))
    kafka.nodes[1].stop()
    query.until(lambda: query.watch.needs_metadata)
    kafka.log(T1).append(b"y")
    query.until(lambda: query.watch.state.log_end(T1) == Position(2, 0))
    assert Position(3, 0) == query.watch.state.log_end(T0)

    kafka.log(T0).append(b"d")
    kafka.nodes[1].start()
    query.until(lambda: query.watch.state.log_end(T0) == Position(4, 0))


def test_a_leader_that_stays_away_is_an_error(kafka: LittleKafka, watched: Any) -> None:
    """A leader that metadata names and that stays unreachable is an error with its first cause."""
    query = watched(kafka__request__timeout__ms="600")
    kafka.nodes[1].stop()
    with pytest.raises(ConnectionLost, match=r"^watching broker 1 \(127.0.0.1:\d+\): "):
        query.until(query.refresh_metadata)


def test_a_dead_broker_that_leads_nothing_any_more_is_no_error(
    kafka: LittleKafka, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker dies while a long micro-batch runs, and its partitions get another leader. The next
    planning asks for metadata before it judges, and reads on."""
    end = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.nodes[1].stop()
    driver._watch.report_failure(kafka.nodes[1].broker, ConnectionLost("away"))
    kafka.elect(T0, 2)
    kafka.log(T0).append(b"d")
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 1000.0)

    assert {T0: (3, 4)} == read(driver, end, logged(driver.next_end(end, None)))


@pytest.mark.parametrize("where", ["partition", "connection"])
def test_permanent_errors_are_raised(kafka: LittleKafka, watched: Any, where: str) -> None:
    """The driver raises a permanent error of a partition or a broker."""
    if where == "partition":
        query = watched()
        kafka.errors[T0].append(29)
    else:
        kafka.nodes[1].always(FetchRequest, refused)
        query = watched(kafka__request__timeout__ms="300")
    with pytest.raises((BrokerError, ConnectionLost), match=r"(watching t-0|refuses every fetch)"):
        query.until(query.refresh_metadata)


def test_a_refused_log_in_is_raised_at_once(kafka: LittleKafka, watched: Any) -> None:
    """It counts although the broker was away before, and is not tried again for two minutes."""
    query, broker = watched(), kafka.nodes[1].broker
    query.watch.report_failure(broker, ConnectionLost("away"))
    query.watch.report_failure(broker, AuthenticationFailed("wrong password", retriable=False))
    with pytest.raises(AuthenticationFailed, match=r"watching broker 1 .*: wrong password"):
        query.watch.take_changed()


def refused(request: Any) -> Any:
    """A top-level error that belongs to no session: CLUSTER_AUTHORIZATION_FAILED."""
    return FetchResponse(error_code=31, session_id=0, responses=[], throttle_time_ms=0)


@pytest.mark.parametrize("code", [-1, 56, 32_767])
def test_a_partition_that_its_leader_refuses_for_ever(
    kafka: LittleKafka,
    watched: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    code: int,
) -> None:
    """Metadata names the leader again and again, and the leader refuses. A warning and the broker
    report name the partition. In the end the query fails; it would look like an idle partition."""
    path = tmp_path / "brokers.json"
    monkeypatch.setattr(watching, "_SILENT_S", 0.02)
    query = watched(kafka__request__timeout__ms="400")
    query.watch.report = BrokerReport(str(path))
    kafka.errors[T0] = [code] * 100_000
    with pytest.raises(BrokerError, match=rf"watching t-0 at broker 1 .*\({code}\)"):
        query.until(query.refresh_metadata)

    assert 1 == len([text for text in caplog.messages if "watching t-0" in text])
    assert '"name": "t-0"' in path.read_text()


def test_a_partition_that_its_leader_refuses_for_a_while(
    kafka: LittleKafka, watched: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When the leader serves the partition again, the report no longer names it."""
    path = tmp_path / "brokers.json"
    monkeypatch.setattr(watching, "_SILENT_S", 0.02)
    query = watched()
    query.watch.report = BrokerReport(str(path))
    kafka.errors[T0] = [-1] * 100_000

    def named() -> bool:
        query.refresh_metadata()
        return "t-0" in path.read_text()

    query.until(named)
    kafka.errors[T0] = []
    query.until(lambda: not named())
    assert Position(3, 0) == query.watch.state.log_end(T0)


def test_a_bug_is_not_silent(
    kafka: LittleKafka, watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in a poller's thread fails the query. It would look like an idle topic."""
    query = watched()
    monkeypatch.setattr(query.watch, "accept_reply", None)
    with pytest.raises(Exception, match=r"the watch of broker . .* died"):
        query.until(lambda: False)


def test_a_later_hint_replaces_the_first_cause(
    kafka: LittleKafka, watched: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that comes back as a SASL listener: the watch retries, and says what it found."""
    query = watched()
    query.until(lambda: kafka.sessions(1))
    kafka.nodes[1].always(FetchRequest, Close())
    query.until(lambda: "the broker closed it" in caplog.text)
    kafka.nodes[1].always(
        SaslHandshakeRequest, SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
    )
    probes.login._verdicts.clear()  # the first probe has found nothing
    query.until(lambda: "expects a log-in by SASL (PLAIN)" in caplog.text)

    causes = [cause for _, cause in query.watch._failures.values()]
    assert ["SASL"] == [cause.where.get("listener") for cause in causes]
    kafka.nodes[1].always(FetchRequest, kafka.of_node(1, kafka.fetch))
    kafka.log(T0).append(b"after")
    query.until(lambda: query.watch.state.log_end(T0) == Position(4, 0))
