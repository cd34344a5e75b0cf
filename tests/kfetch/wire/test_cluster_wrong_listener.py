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
def sasl_listener() -> Iterator[ScriptedBroker]:
    """A listener that requires a log-in, for a client without one."""
    with ScriptedBroker() as listener:
        listener.always(
            SaslHandshakeRequest, SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
        )
        yield listener


def address(broker: ScriptedBroker) -> tuple[str, int]:
    return "127.0.0.1", broker.port


@pytest.mark.parametrize("patient", [True, False])
def test_a_cluster_whose_only_server_is_a_wrong_listener(
    sasl_listener: ScriptedBroker, patient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An impatient cluster fails at once. A patient one warns with the hint, and retries."""
    with (
        closing(Cluster((address(sasl_listener),), OPTIONS, patient=patient)) as cluster,
        pytest.raises(WrongListener, match=r"by SASL \(PLAIN\)") as caught,
    ):
        cluster.view(["t"], soon(1 if patient else 60))

    assert patient == (len(sasl_listener.asked(MetadataRequest)) > 1)
    assert patient == ("no success in" in caught.value.message)
    assert patient == any("expects a log-in by SASL" in text for text in caplog.messages)


def test_a_wrong_listener_beside_an_unreachable_broker(
    sasl_listener: ScriptedBroker, closed_port: int
) -> None:
    """kfetch retries, because the other broker may be starting. The error names the wrong
    listener."""
    servers = ("127.0.0.1", closed_port), address(sasl_listener)
    with (
        closing(Cluster(servers, OPTIONS, patient=False)) as cluster,
        pytest.raises(WrongListener, match="no success in"),
    ):
        cluster.view(["t"], soon(1))


def test_a_wrong_listener_beside_a_good_one(
    sasl_listener: ScriptedBroker, kafka: LittleKafka
) -> None:
    """kfetch uses the bootstrap server that answers."""
    cluster = Cluster((address(sasl_listener), address(kafka.nodes[1])), OPTIONS, patient=False)

    assert cluster.view(["t"], soon()).exists(T0)
    cluster.close()


def test_a_running_query_keeps_retrying(
    kafka: LittleKafka, sasl_listener: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """If the cluster has answered once, kfetch retries a wrong listener. The warning has the
    hint."""
    cluster = Cluster((address(kafka.nodes[1]), address(sasl_listener)), OPTIONS, patient=False)
    cluster.view(["t"], soon())
    for node in kafka.nodes.values():
        node.stop()
    with pytest.raises(WrongListener, match="no success in"):
        cluster.view(["t"], soon(1))

    assert any("expects a log-in by SASL" in text for text in caplog.messages)
    cluster.close()
