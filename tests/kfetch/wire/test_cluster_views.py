"""What several brokers say: leaders with their epochs, other views, a new start."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch import losses
from kfetch.errors import BrokerError, ConnectionLost, WrongListener
from kfetch.model import TopicPartition
from kfetch.wire import cluster as wire_cluster
from kfetch.wire import retry
from kfetch.wire import servers as wire_servers
from kfetch.wire.cluster import Cluster
from tests.kfetch.wire.helpers import OPTIONS, SHORT_S, T0, T1, Clock, soon
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close

GONE = TopicPartition("gone", 0)


@pytest.mark.parametrize("api", [ListOffsetsRequest, OffsetForLeaderEpochRequest])
def test_the_leader_epoch_goes_along(kafka: LittleKafka, cluster: Cluster, api: Any) -> None:
    """Requests to a leader carry its epoch, so that a deposed leader refuses them (KIP-320)."""
    kafka.elect(T0, 1)
    kafka.elect(T0, 1)
    ask = cluster.offsets if api is ListOffsetsRequest else cluster.epoch_ends
    ask({T0: 0}, soon())
    (request,) = kafka.nodes[1].asked(api)

    assert [2] == [p.current_leader_epoch for t in request.topics for p in t.partitions]


@pytest.mark.parametrize("api", [ListOffsetsRequest, OffsetForLeaderEpochRequest])
def test_an_older_leader_is_not_asked(kafka: LittleKafka, cluster: Cluster, api: Any) -> None:
    """Metadata that is older than a known leader epoch is asked for again at other brokers."""
    cluster.offsets({T0: -1, T1: -1}, soon())  # now both are connected
    before = len(kafka.nodes[1].asked(api))
    kafka.isolate(1)
    kafka.elect(T0, 2)
    ask = cluster.offsets if api is ListOffsetsRequest else cluster.epoch_ends
    for _ in range(2):  # whoever answers first
        ask({T0: 0}, soon(1), leader_epochs={T0: 1})

    assert before == len(kafka.nodes[1].asked(api))


def test_views_of_several_brokers(kafka: LittleKafka, cluster: Cluster) -> None:
    """Each known broker gives its own metadata. A broker that is down is left out."""
    cluster.view({"t"}, soon())
    kafka.isolate(1, without="t")

    assert [False, True] == sorted(view.exists(T0) for view in cluster.views({"t"}, soon()))
    kafka.nodes[2].stop()
    assert [False] == [view.exists(T0) for view in cluster.views({"t"}, soon())]


def test_views_share_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five black holes cost three seconds in all, and one of them leaves time for the others."""
    clock = Clock()
    monkeypatch.setattr(wire_cluster, "time", clock)
    for holes, end_s in ((5, 3.0), (1, 1.0)):
        asked: list[int] = []

        def ask(
            address: tuple[str, int],
            until: float,
            holes: int = holes,
            asked: list[int] = asked,
        ) -> Any:
            asked.append(address[1])
            if address[1] < holes:
                clock.now = until
            raise ConnectionLost("no answer")

        cluster = Cluster(tuple(("h", port) for port in range(5)), OPTIONS)
        monkeypatch.setattr(cluster.servers, "connect", ask)
        began = clock.now

        assert [] == list(cluster.views({"t"}, began + 30))
        assert end_s == pytest.approx(clock.now - began)
        assert holes == 5 or [0, 1, 2, 3, 4] == asked


def test_a_new_start_at_the_bootstrap_servers(kafka: LittleKafka) -> None:
    """After REBOOTSTRAP_REQUIRED the known brokers are left, and the bootstrap servers asked."""
    with LittleKafka() as other:
        other.create("elsewhere")
        bootstrap = (("127.0.0.1", kafka.nodes[1].port), ("127.0.0.1", other.nodes[1].port))
        cluster = Cluster(bootstrap, OPTIONS)
        assert cluster.view(None, soon()).exists(T0)
        for node in kafka.nodes.values():
            node.always(MetadataRequest, _rebootstrap)
        before = len(kafka.nodes[2].asked(MetadataRequest))

        assert ["elsewhere"] == list(cluster.view(None, soon()).topics)
        assert before == len(kafka.nodes[2].asked(MetadataRequest))
        cluster.close()


def test_no_broker_but_a_new_start(kafka: LittleKafka, cluster: Cluster) -> None:
    """If every bootstrap server answers so, the error names it after the deadline."""
    for node in kafka.nodes.values():
        node.always(MetadataRequest, _rebootstrap)
    with pytest.raises(BrokerError, match=r"answered REBOOTSTRAP_REQUIRED \(129\): it asks for a"):
        cluster.view(None, soon(SHORT_S))


def test_a_new_start_at_a_wrong_listener(kafka: LittleKafka) -> None:
    """A cluster that has answered before is asked again, also after its brokers are forgotten."""
    node = kafka.nodes[1]
    cluster = Cluster((("127.0.0.1", node.port),), OPTIONS, patient=False)
    cluster.view(None, soon())
    cluster.servers.forget()
    node.always(MetadataRequest, Close())
    node.always(SaslHandshakeRequest, SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"]))
    with pytest.raises(WrongListener, match="no success in"):
        cluster.view(None, soon(1))
    cluster.close()


def test_a_topic_of_another_broker_without_a_view_before(kafka: LittleKafka) -> None:
    """A cluster that only completes the view of another one asks the brokers of that view."""
    kafka.isolate(1, without="t")
    first = (("127.0.0.1", kafka.nodes[1].port),)
    with closing(Cluster(first, OPTIONS)) as other, closing(Cluster(first, OPTIONS)) as cluster:
        view = other.view({"t"}, soon())
        assert not view.exists(T0)
        assert cluster.completed(view, [T0], {}, soon()).exists(T0)


def _rebootstrap(request: Any) -> MetadataResponse:
    return MetadataResponse(
        version=request.API_VERSION,
        error_code=129,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=[],
    )


LEADER_QUESTIONS = ("offsets", "epoch_ends")


@pytest.mark.parametrize("question", LEADER_QUESTIONS)
def test_a_partition_that_is_gone_has_no_answer(
    kafka: LittleKafka, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """A partition that no broker names for some time holds up the others no more."""
    clock = Clock()
    for module in (wire_cluster, wire_servers, retry):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.2)
    began = clock.now = time.monotonic()
    answers = getattr(cluster, question)({T0: 0, GONE: 0}, began + 30)

    assert {T0} == answers.keys()
    assert 0.2 == pytest.approx(clock.now - began, abs=0.01)


def test_a_partition_without_a_leader_is_not_gone(
    kafka: LittleKafka, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that metadata names without a leader is waited for, up to the deadline."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 0.0)
    kafka.elect(T0, None)
    with pytest.raises(BrokerError, match="t-0 has no leader that answers"):
        cluster.epoch_ends({T0: 0}, soon(0.3))
