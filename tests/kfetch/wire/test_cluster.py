"""A cluster to ask: the right broker, another try when it moved, and errors that are final."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse

from kfetch.errors import BrokerError, ConnectionLost
from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions
from kfetch.wire import addresses
from kfetch.wire import cluster as wire_cluster
from kfetch.wire import servers as wire_servers
from kfetch.wire.cluster import Cluster
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.servers import Servers
from tests.kfetch.wire.helpers import OPTIONS, SHORT_S, T0, T1, Clock, soon
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, ScriptedBroker, Silence

LEADER_NOT_AVAILABLE, NOT_LEADER, UNAUTHORIZED = 5, 6, 29


def test_every_leader_is_asked(kafka: LittleKafka, cluster: Cluster) -> None:
    """Each partition's leader is asked once, about its own partitions."""
    offsets = cluster.offsets({T0: -1, T1: -1}, soon())

    assert {T0: ListedOffset(0, 1, 0), T1: ListedOffset(0, 2, 0)} == offsets
    for node, partition in ((1, 0), (2, 1)):
        (request,) = kafka.nodes[node].asked(ListOffsetsRequest)
        assert [partition] == [p.partition_index for t in request.topics for p in t.partitions]


def test_connections_are_kept(kafka: LittleKafka, cluster: Cluster) -> None:
    """Asking again opens no further connection."""
    for _ in range(3):
        cluster.offsets({T0: -1, T1: -1}, soon())

    assert [1, 1] == [node.connections for node in kafka.nodes.values()]


def test_questions_of_one_planning_share_metadata(
    kafka: LittleKafka, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders are known for a second. Later, or for a leader's successor, metadata is fresh."""

    def asked() -> int:
        return sum(len(node.asked(MetadataRequest)) for node in kafka.nodes.values())

    monkeypatch.setattr(wire_cluster, "_RECENT_S", 60.0)
    cluster.view(["t"], soon())
    cluster.offsets({T0: -1, T1: -1}, soon())
    cluster.epoch_ends({T0: 0}, soon())
    assert 1 == asked()

    kafka.elect(T0, 2)
    cluster.offsets({T0: -1}, soon(), leader_epochs={T0: 1})
    assert 2 == asked()

    monkeypatch.setattr(wire_cluster, "_RECENT_S", 0.0)
    cluster.offsets({T1: -1}, soon())
    assert 3 == asked()


def test_known_brokers_take_turns(kafka: LittleKafka, cluster: Cluster) -> None:
    """A cluster without a connection asks another known broker each time."""
    for _ in range(4):
        cluster.view(["t"], soon())
        cluster.close()

    assert all(node.asked(MetadataRequest) for node in kafka.nodes.values())


def test_connections_to_former_addresses_are_closed(kafka: LittleKafka, cluster: Cluster) -> None:
    """A broker that moves to another address again and again leaves no connections behind."""
    node = kafka.nodes[2]
    for _ in range(6):
        cluster.offsets({T1: -1}, soon())
        node.stop()
        node.move()
        node.start()

    assert len(cluster.servers._connections) <= 3


def test_leader_moves(kafka: LittleKafka, cluster: Cluster) -> None:
    """NOT_LEADER is followed by metadata and the new leader; who answered is not asked again."""

    def moved(request: Any) -> Any:
        kafka.elect(T0, 2)
        return kafka.list_offsets(1, request)

    kafka.nodes[1].answer(ListOffsetsRequest, moved)
    offsets = cluster.offsets({T0: -1, T1: -1}, soon())

    assert {T0: ListedOffset(0, 1, 1), T1: ListedOffset(0, 2, 0)} == offsets
    asked = [
        [p.partition_index for t in request.topics for p in t.partitions]
        for request in kafka.nodes[2].asked(ListOffsetsRequest)
    ]
    assert [[1], [0]] == asked


def test_waits_for_an_election(kafka: LittleKafka, cluster: Cluster) -> None:
    """A partition without a leader is asked for again until it has one."""
    kafka.elect(T0, None)
    requests = []

    def metadata(request: Any) -> Any:
        requests.append(request)
        if len(requests) == 3:
            kafka.elect(T0, 2)
        return kafka.metadata(request)

    for node in kafka.nodes.values():
        node.always(MetadataRequest, metadata)

    assert {T0: ListedOffset(0, 1, 2)} == cluster.offsets({T0: -1}, soon())


def test_topic_missing(kafka: LittleKafka, cluster: Cluster) -> None:
    """The error at the deadline names a partition without a leader, and the action."""
    gone = TopicPartition("gone", 3)
    with pytest.raises(
        BrokerError,
        match=r"^listing offsets: no success in \d+ tries; the first cause: listing offsets: "
        r"gone-3 has no leader that answers \[BROKER_ERROR\]$",
    ) as caught:
        cluster.offsets({gone: -1}, soon(0.4))

    assert ("gone", 3) == (caught.value.topic, caught.value.partition)


def test_topic_missing_in_a_view(cluster: Cluster) -> None:
    """A view holds the topics that exist; the others are simply not in it."""
    assert {"t"} == set(cluster.view(["t", "gone"], soon()).topics)
    assert {"t"} == set(cluster.view(None, soon()).topics)


def test_authorization_is_final(kafka: LittleKafka, cluster: Cluster) -> None:
    """An error that no retry mends is raised at once, with the partition and the broker."""
    original = kafka.list_offsets

    def refused(request: Any) -> Any:
        reply = original(1, request)
        reply.topics[0].partitions[0].error_code = UNAUTHORIZED
        return reply

    kafka.nodes[1].always(ListOffsetsRequest, refused)
    with pytest.raises(BrokerError) as caught:
        cluster.offsets({T0: -1}, soon())

    broker = kafka.nodes[1].broker
    assert str(caught.value).startswith(
        f"listing offsets of t-0 at {broker}: the broker answered TOPIC_AUTHORIZATION_FAILED (29)"
    )
    assert 1 == len(kafka.nodes[1].asked(ListOffsetsRequest))


def test_topic_error_is_asked_again(kafka: LittleKafka, cluster: Cluster) -> None:
    """A topic whose metadata is not there yet is asked for again; it does not count as empty."""
    topic = MetadataResponse.MetadataResponseTopic
    kafka.nodes[1].answer(
        MetadataRequest,
        lambda request: MetadataResponse(
            version=request.API_VERSION,
            brokers=[],
            cluster_id="c",
            controller_id=1,
            topics=[
                topic(
                    version=request.API_VERSION,
                    error_code=LEADER_NOT_AVAILABLE,
                    name="t",
                    partitions=[],
                )
            ],
        ),
    )

    assert cluster.view(["t"], soon()).exists(T1)


def test_a_broker_that_can_not_tell_is_not_the_only_voice(
    kafka: LittleKafka, cluster: Cluster
) -> None:
    """Metadata that one connected broker keeps refusing is asked of another one meanwhile."""
    cluster.offsets({T0: -1, T1: -1}, soon())  # now both are connected
    refused = MetadataResponse.MetadataResponseTopic

    def refuse(request: Any) -> MetadataResponse:
        reply = kafka.metadata(request)
        topic = refused(version=request.API_VERSION, name="t", partitions=[])
        topic.error_code = LEADER_NOT_AVAILABLE
        reply.topics = [topic]
        return reply

    for node in kafka.nodes:  # whoever would be asked first
        kafka.nodes[1].always(MetadataRequest, kafka.metadata)
        kafka.nodes[2].always(MetadataRequest, kafka.metadata)
        kafka.nodes[node].always(MetadataRequest, refuse)

        assert {0, 1} == {*cluster.view({"t"}, soon(1)).topics["t"].leaders}


def test_dead_bootstrap_broker(kafka: LittleKafka, closed_port: int) -> None:
    """The next bootstrap broker is asked when the first is down."""
    bootstrap = (("127.0.0.1", closed_port), ("127.0.0.1", kafka.nodes[2].port))
    cluster = Cluster(bootstrap, OPTIONS)

    assert cluster.view(["t"], soon()).exists(T0)
    cluster.close()


def test_silent_bootstrap_broker_costs_its_share(kafka: LittleKafka) -> None:
    """A server that accepts and never answers leaves the others their share of the deadline."""
    with ScriptedBroker() as mute:
        mute.always(ApiVersionsRequest, Silence())
        bootstrap = (("127.0.0.1", mute.port), ("127.0.0.1", kafka.nodes[2].port))
        cluster = Cluster(bootstrap, replace(OPTIONS, request_timeout_s=30.0))
        view = cluster.view(["t"], soon(2))
        cluster.close()

    assert view.exists(T0)


def test_a_silent_server_is_asked_last(kafka: LittleKafka) -> None:
    """After a server has not answered, the next questions go to the others first."""
    with ScriptedBroker() as mute:
        mute.always(ApiVersionsRequest, Silence())
        bootstrap = (("127.0.0.1", mute.port), ("127.0.0.1", kafka.nodes[2].port))
        cluster = Cluster(bootstrap, OPTIONS)
        cluster.view(["t"], soon(2))
        asked = mute.connections
        cluster.servers.forget()
        cluster.view(["t"], soon())
        cluster.close()

    assert asked == mute.connections


def test_a_server_that_failed_gets_its_turn_again(
    kafka: LittleKafka, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute later the order is the old one: a server must not be left out for good."""
    monkeypatch.setattr(addresses, "time", clock)
    first, second = (("127.0.0.1", node.port) for node in kafka.nodes.values())
    servers = Servers((first, second), OPTIONS, patient=True)
    addresses.avoid(first)

    assert [second, first] == servers.addresses()
    clock.now += 30
    assert [first, second] == servers.addresses()


def test_shares_of_many_servers(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers share the time evenly. Of many servers, one gets 5 s, or half of a shorter time."""
    monkeypatch.setattr(wire_servers, "time", clock)
    servers = Servers((), replace(OPTIONS, request_timeout_s=20.0), patient=True)

    assert [10, 15, 20] == [servers._share_end(130.0, n) - clock.now for n in (3, 2, 1)]
    assert 5 == servers._share_end(130.0, 1000) - clock.now
    assert [2, 1] == [servers._share_end(until, 1000) - clock.now for until in (104.0, 102.0)]


def test_broker_that_closes(kafka: LittleKafka, cluster: Cluster) -> None:
    """A connection that the broker closed is opened again, and the question asked again."""
    cluster.offsets({T0: -1}, soon())
    kafka.nodes[1].answer(ListOffsetsRequest, Close(), Close())

    assert 1 == cluster.offsets({T0: -1}, soon())[T0].offset


def test_a_connection_that_was_idle(
    kafka: LittleKafka, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers close idle connections (connections.max.idle.ms). That is no failure, and no broker
    is avoided for it."""
    causes: list[ConnectionLost | None] = []
    cluster.servers.on_answer = causes.append
    cluster.offsets({T0: -1, T1: -1}, soon())
    for node in kafka.nodes.values():
        node.drop()
    cluster.view(["t"], soon())
    cluster.offsets({T0: -1, T1: -1}, soon())

    assert {None} == {*causes}
    assert [] == caplog.messages
    assert not any(map(addresses.is_avoided, cluster.servers.addresses()))
    assert [2, 2] == [node.connections for node in kafka.nodes.values()]


def test_restart(kafka: LittleKafka, cluster: Cluster) -> None:
    """After a broker was down and is back, the same cluster goes on."""
    cluster.offsets({T0: -1}, soon())
    kafka.nodes[1].stop()
    with pytest.raises(ConnectionLost, match="listing offsets: no success"):
        cluster.offsets({T0: -1}, soon(0.4))
    kafka.nodes[1].start()

    assert 1 == cluster.offsets({T0: -1}, soon())[T0].offset


def test_everything_down(kafka: LittleKafka, cluster: Cluster) -> None:
    """With no broker left the error tells the first cause, once the deadline is over."""
    for node in kafka.nodes.values():
        node.stop()
    with pytest.raises(
        ConnectionLost,
        match=r"asking for metadata: no success in \d+ tries; the first cause: no connection to "
        r"127.0.0.1:\d+: .*refused",
    ):
        cluster.view(["t"], soon(SHORT_S))


def test_silent_broker_has_its_own_deadline(kafka: LittleKafka) -> None:
    """One silent broker costs a request's timeout, not the whole deadline."""
    quick = NetworkOptions(request_timeout_s=SHORT_S, retry_backoff_s=0.001)
    cluster = Cluster((("127.0.0.1", kafka.nodes[2].port),), quick)
    kafka.nodes[1].answer(ListOffsetsRequest, Silence())

    assert {T0, T1} == set(cluster.offsets({T0: -1, T1: -1}, soon()))
    cluster.close()


def test_epoch_ends(kafka: LittleKafka, cluster: Cluster) -> None:
    """Each leader answers for the epochs of its partitions."""
    assert {T0: EpochEnd(0, 0, 1), T1: EpochEnd(0, 0, 2)} == cluster.epoch_ends(
        {T0: 0, T1: 0}, soon()
    )


def test_epoch_ends_of_an_old_broker() -> None:
    """Where the broker is too old to be asked, the answer is None at once."""
    with LittleKafka(1, {OffsetForLeaderEpochRequest: (0, 2)}) as kafka:
        kafka.create("t")
        cluster = Cluster((("127.0.0.1", kafka.nodes[1].port),), OPTIONS)

        assert {T0: None} == cluster.epoch_ends({T0: 0}, soon())
        cluster.close()
