"""Bootstrap servers that are wrong listeners: when a cluster fails at once, and when it retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import WrongListener
from kfetch.wire.cluster import Cluster
from tests.kfetch.wire.helpers import OPTIONS, T0, soon
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import ScriptedBroker


@pytest.fixture
def wrong() -> Iterator[ScriptedBroker]:
    """A listener that wants a log-in."""
    with ScriptedBroker() as listener:
        listener.always(
            SaslHandshakeRequest, SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
        )
        yield listener


def address(broker: ScriptedBroker) -> tuple[str, int]:
    return "127.0.0.1", broker.port


@pytest.mark.parametrize("patient", [True, False])
def test_a_first_question_to_a_wrong_listener(
    wrong: ScriptedBroker, patient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An impatient cluster fails at once. A patient one warns with the hint, and retries."""
    with (
        closing(Cluster((address(wrong),), OPTIONS, patient=patient)) as cluster,
        pytest.raises(WrongListener, match=r"by SASL \(PLAIN\)") as caught,
    ):
        cluster.view(["t"], soon(1 if patient else 60))

    assert patient == (len(wrong.asked(MetadataRequest)) > 1)
    assert patient == ("no success in" in caught.value.message)
    assert patient == any("expects a log-in by SASL" in text for text in caplog.messages)


def test_a_wrong_listener_beside_a_broker_that_is_away(
    wrong: ScriptedBroker, closed_port: int
) -> None:
    """While a server may be starting, kfetch retries. The error names the wrong listener."""
    servers = ("127.0.0.1", closed_port), address(wrong)
    with (
        closing(Cluster(servers, OPTIONS, patient=False)) as cluster,
        pytest.raises(WrongListener, match="no success in"),
    ):
        cluster.view(["t"], soon(1))


def test_a_wrong_listener_beside_a_good_one(wrong: ScriptedBroker, kafka: LittleKafka) -> None:
    """The other bootstrap servers answer."""
    cluster = Cluster((address(wrong), address(kafka.nodes[1])), OPTIONS, patient=False)

    assert cluster.view(["t"], soon()).exists(T0)
    cluster.close()


def test_a_running_query_keeps_retrying(
    kafka: LittleKafka, wrong: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the cluster has answered, a wrong listener is retried, and the warning has the hint."""
    cluster = Cluster((address(kafka.nodes[1]), address(wrong)), OPTIONS, patient=False)
    cluster.view(["t"], soon())
    for node in kafka.nodes.values():
        node.stop()
    with pytest.raises(WrongListener, match="no success in"):
        cluster.view(["t"], soon(1))

    assert any("expects a log-in by SASL" in text for text in caplog.messages)
    cluster.close()
