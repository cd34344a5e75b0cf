"""What ``kfetch.admin.brokers`` says of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kfetch.admin.brokers import BrokerState, ClusterState, check, cluster_id
from kfetch.errors import ConnectionLost, OptionError
from kfetch.spark.options import parse
from tests.kfetch.wire.little import DESCRIBE_ONLY, LittleKafka
from tests.kfetch.wire.scripted import ScriptedBroker, Silence

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


def state_of(kafka: LittleKafka, *topics: str) -> ClusterState:
    return check({"kafka.bootstrap.servers": kafka.bootstrap}, topics, wait_s=5.0)


def test_a_cluster_that_can_be_read() -> None:
    """Its id, each broker, the versions in use and the topics are there, and no problem."""
    with LittleKafka(nodes=2) as kafka:
        kafka.create("clicks", 3)
        state = state_of(kafka, "clicks")

    assert ("little", True, ()) == (state.cluster_id, state.fetch_sessions, state.problems)
    assert [1, 2] == sorted(each.broker.node_id for each in state.brokers)
    assert {"Metadata", "ListOffsets", "OffsetForLeaderEpoch", "Fetch"} == state.versions.keys()
    topic = state.topics["clicks"]
    assert topic is not None
    assert 3 == len(topic.leaders)


def test_a_topic_that_may_be_described_and_not_read() -> None:
    """It is a problem with the user, the topic, the missing operation and what to do."""
    with LittleKafka() as kafka:
        kafka.create("clicks")
        kafka.create("open")
        kafka.operations["clicks"] = DESCRIBE_ONLY
        state = state_of(kafka, "clicks", "open", "gone")

    denied = (
        "the ACLs of topic clicks let this user (User:ANONYMOUS where there is no log-in) describe "
        "it and not read it: add the operation READ with kafka-acls.sh"
    )
    assert (denied,) == state.unreadable
    assert denied in state.problems


def test_no_fetch_session_is_opened() -> None:
    """A check sends no fetch request, so no running query loses its session."""
    with LittleKafka() as kafka:
        kafka.create("clicks")
        state_of(kafka, "clicks")

        assert [] == kafka.asked(FetchRequest)


def test_brokers_before_sessions() -> None:
    """A broker below Fetch v7 is used without sessions; one without a common version is named."""
    with LittleKafka(versions={FetchRequest: (0, 6)}) as kafka:
        old = state_of(kafka)
    with LittleKafka(versions={FetchRequest: (0, 3)}) as kafka:
        ancient = state_of(kafka)

    assert (False, 6, ()) == (old.fetch_sessions, old.versions["Fetch"].used, old.problems)
    assert ancient.versions["Fetch"].used is None
    assert "supports Fetch v0 to v3, and kfetch supports none of these" in ancient.problems[0]


def test_topics_that_cannot_be_read() -> None:
    """A missing topic and a partition without a leader are problems, each with what to do."""
    with LittleKafka() as kafka:
        log = kafka.create("clicks", 2)[1]
        log.leader = None
        state = state_of(kafka, "clicks", "absent")

    assert (
        "clicks-1 has no leader: start its brokers, or wait for an election",
        "topic absent does not exist: create it, or check its name",
    ) == state.problems


def test_a_broker_at_a_wrong_address() -> None:
    """A broker out of reach at its own address is a problem that names advertised.listeners."""
    with LittleKafka() as kafka:
        state = state_of(kafka)
    away = replace(
        state, brokers=(BrokerState(broker=state.brokers[0].broker, error="no connection"),)
    )

    assert "cannot be reached (no connection): its advertised.listeners must" in away.problems[0]


@pytest.mark.parametrize("api", [ApiVersionsRequest, MetadataRequest])
def test_a_server_that_never_answers(api: Any) -> None:
    """A bootstrap server that accepts and never answers does not hide that the next one lives."""
    with LittleKafka() as kafka, ScriptedBroker(9) as mute:
        mute.always(api, Silence())
        servers = f"127.0.0.1:{mute.port},{kafka.bootstrap}"
        state = check({"kafka.bootstrap.servers": servers}, wait_s=0.6)
        source = parse({"kafka.bootstrap.servers": servers, "subscribe": "t"})

        assert "little" == state.cluster_id == cluster_id(source, 0.6)
    assert () == state.problems


def test_nobody_there(closed_port: int) -> None:
    """Without any broker, the error is the source's own; a wrong option is an OptionError."""
    with pytest.raises(ConnectionLost, match=rf"127\.0\.0\.1:{closed_port}"):
        check({"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}"}, wait_s=0.2)
    with pytest.raises(OptionError, match="host:port"):
        check({"kafka.bootstrap.servers": "localhost"})
