"""kfetch reacts to each error code of a broker as the table of ``reactions`` says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from kfetch.agent.inline import InlineQuery
from kfetch.errors import AuthenticationFailed, BrokerError, ConnectionLost, WrongListener
from kfetch.model import Broker, ClusterView, Leader, OffsetRange, Topic, TopicPartition
from kfetch.offsets import Position
from kfetch.options import NetworkOptions
from kfetch.reactions import NAMES, Api, Reaction, reaction
from kfetch.session.replies import PartitionReply
from kfetch.spark import options as parsing
from kfetch.watch.state import WatchState
from kfetch.wire.cluster import Cluster
from kfetch.wire.connection import Connection
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.sasl.broker_side import LoginServer, alice, network, plain_server
from tests.kfetch.wire.scripted import ScriptedBroker

CODES = [*(code for code in NAMES if code), 9_999]
T0 = TopicPartition("t", 0)
OPTIONS = NetworkOptions(retry_backoff_s=0.0005, retry_backoff_max_s=0.0005)


def codes(api: Api, expected: Reaction) -> list[int]:
    """The codes with one reaction."""
    return [code for code in CODES if reaction(api, code) is expected]


def soon() -> float:
    """A deadline."""
    return time.monotonic() + 60


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """One node; t-0 with two records."""
    with LittleKafka(1) as running:
        running.create("t")
        running.log(T0).append(b"a", b"b")
        running.hints = False
        yield running


@pytest.fixture
def cluster(kafka: LittleKafka) -> Iterator[Cluster]:
    """A cluster to ask."""
    with closing(Cluster((("127.0.0.1", kafka.nodes[1].port),), OPTIONS)) as opened:
        yield opened


@pytest.fixture
def count(kafka: LittleKafka) -> Iterator[Callable[[], int]]:
    """Reads t-0 in a task, and returns the number of its records."""
    settings = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "1",
    }
    node = kafka.nodes[1].broker
    item = OffsetRange(tp=T0, topic_id=UUID(int=1), start=0, end=2, leader_epoch=0, leader=node)
    with closing(InlineQuery("q", parsing.parse(settings))) as query:
        yield lambda: sum(batch.num_rows for batch in query.read([item]))


def test_a_task_reads_on_after_retried_errors(kafka: LittleKafka, count: Callable[[], int]) -> None:
    """A task outlasts every error of Fetch that the table retries, UNKNOWN_SERVER_ERROR too."""
    retried = codes(Api.FETCH, Reaction.RETRY)
    kafka.errors[T0] += retried

    assert 2 == count()
    assert {-1, 3, 6, 9, 56, 74, 75, 78, 100, 103} <= {*retried}
    assert not kafka.errors[T0]


def test_a_task_looks_for_its_position(kafka: LittleKafka, count: Callable[[], int]) -> None:
    """After OFFSET_OUT_OF_RANGE a task asks for the log's start and end."""
    assert [1] == codes(Api.FETCH, Reaction.REPOSITION)
    kafka.errors[T0] += [1]

    assert 2 == count()
    assert 2 == len(kafka.asked(ListOffsetsRequest))


def test_a_task_fails_at_final_errors(kafka: LittleKafka, count: Callable[[], int]) -> None:
    """Every error of Fetch that the table fails with ends the task at the first reply."""
    for code in codes(Api.FETCH, Reaction.FAIL):
        kafka.errors[T0] += [code]
        with pytest.raises(BrokerError) as caught:
            count()
        assert (code, False) == (caught.value.code, caught.value.retriable)


def test_the_watch_reacts_as_a_task() -> None:
    """The driver's watch retries, repositions and fails at the same errors of Fetch."""
    for code in CODES:
        state = watch_after(code)

        expected = reaction(Api.FETCH, code)
        assert (expected is Reaction.FAIL) == (state.permanent_error is not None)
        assert (expected is Reaction.REPOSITION) == (T0 in state.out_of_range)
        assert (expected is Reaction.RETRY) == (T0 in state.leaderless)


def watch_after(code: int) -> WatchState:
    """The watch of one partition, after its broker has answered with an error code."""
    state, broker = watched()
    error = PartitionReply(
        key=(UUID(int=1), 0),
        error=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging=None,
        leader=None,
        aborted=(),
        preferred_read_replica=-1,
        records=memoryview(b""),
    )
    state.accept_reply(broker, {T0: error}, {})
    return state


def watched() -> tuple[WatchState, Broker]:
    """The watch of one partition, in the session of its broker."""
    state, broker = WatchState(), Broker(node_id=1, host="h", port=1)
    leader = Leader(broker=broker, epoch=0)
    topic = Topic(name="t", topic_id=UUID(int=1), internal=False, leaders={0: leader})
    state.update_metadata(ClusterView(brokers={1: broker}, topics={"t": topic}), [T0])
    state.watch_from(T0, leader, Position(2, 0))
    state.take_position_changes(broker)
    return state, broker


def with_errors(
    honest: Callable[[Any], Any], entry_of: Callable[[Any], Any], script: list[int]
) -> Callable[[Any], Any]:
    """Honest answers, with the next code of the script in the entry of the topic or partition."""

    def answer(request: Any) -> Any:
        reply = honest(request)
        if script:
            entry_of(reply.topics[0]).error_code = script.pop(0)
        return reply

    return answer


QUESTIONS: dict[Api, tuple[Any, Callable[[Any], Any], Callable[[Cluster], object]]] = {
    Api.LIST_OFFSETS: (
        ListOffsetsRequest,
        lambda topic: topic.partitions[0],
        lambda cluster: cluster.offsets({T0: -1}, soon()),
    ),
    Api.EPOCH_ENDS: (
        OffsetForLeaderEpochRequest,
        lambda topic: topic.partitions[0],
        lambda cluster: cluster.epoch_ends({T0: 0}, soon()),
    ),
    Api.METADATA: (
        MetadataRequest,
        lambda topic: topic,
        lambda cluster: cluster.view(["t"], soon()),
    ),
}


@pytest.mark.parametrize("api", QUESTIONS)
def test_questions(kafka: LittleKafka, cluster: Cluster, api: Api) -> None:
    """A question to the cluster is asked again after each retried error, and once for a final
    one. Metadata leaves out a topic that is absent."""
    request, entry_of, ask = QUESTIONS[api]
    script: list[int] = []
    node = kafka.nodes[1]
    node.always(request, with_errors(node.handlers[request], entry_of, script))
    good = ask(cluster)

    script += codes(api, Reaction.RETRY)
    assert {-1, 2, 5, 6, 7, 9, 56, 72, 74, 75, 78, 9_999} <= {*script}
    assert good == ask(cluster)
    assert not script
    for code in codes(api, Reaction.FAIL):
        script += [code, 6]
        with pytest.raises(BrokerError) as caught:
            ask(cluster)
        assert (code, False) == (caught.value.code, caught.value.retriable)
        assert [6] == script
        script.clear()
    for code in codes(api, Reaction.ABSENT):
        script += [code]
        assert not cluster.view(["t"], soon()).topics


def test_api_versions() -> None:
    """UNSUPPORTED_VERSION leads to version 0; every other code costs the connection."""
    assert [35] == codes(Api.API_VERSIONS, Reaction.OLDER_VERSION)
    with ScriptedBroker() as broker:
        for code in CODES:
            broker.answer(ApiVersionsRequest, ApiVersionsResponse[0](error_code=code, api_keys=[]))
            if reaction(Api.API_VERSIONS, code) is Reaction.OLDER_VERSION:
                Connection.open("127.0.0.1", broker.port, OPTIONS, soon()).close()
            else:
                with pytest.raises(ConnectionLost):
                    Connection.open("127.0.0.1", broker.port, OPTIONS, soon())


@pytest.mark.parametrize("api", [Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE])
def test_log_ins(api: Api) -> None:
    """A log-in that the broker refuses is final. After any other code kfetch connects again."""
    options = network(alice(), retry_backoff_s=0.0005)
    with ScriptedBroker() as broker:
        LoginServer(broker, {"PLAIN": plain_server})
        for code in CODES:
            if api is Api.SASL_HANDSHAKE:
                answer = SaslHandshakeResponse(error_code=code, mechanisms=[])
                broker.answer(SaslHandshakeRequest, answer)
            else:
                broker.answer(SaslAuthenticateRequest, refused_log_in(code))
            with pytest.raises((AuthenticationFailed, ConnectionLost)) as caught:
                Connection.open("127.0.0.1", broker.port, options, soon())
            final = reaction(api, code) is Reaction.FAIL
            wrong = isinstance(caught.value, WrongListener)
            assert final == (wrong or isinstance(caught.value, AuthenticationFailed))
            assert wrong == ((api, code) == (Api.SASL_HANDSHAKE, 34))


def refused_log_in(code: int) -> Any:
    """A reply to SaslAuthenticate with an error code."""
    return SaslAuthenticateResponse(
        error_code=code, error_message="no", auth_bytes=b"", session_lifetime_ms=0
    )


def test_a_broker_that_refuses_api_versions_is_not_the_only_one(kafka: LittleKafka) -> None:
    """The next bootstrap server is asked after one answers ApiVersions with an error."""
    with ScriptedBroker() as broken:
        refusal = ApiVersionsResponse[0](error_code=-1, api_keys=[])
        broken.always(ApiVersionsRequest, lambda _: refusal)
        servers = tuple(("127.0.0.1", port) for port in (broken.port, kafka.nodes[1].port))
        with closing(Cluster(servers, OPTIONS)) as cluster:
            assert cluster.view(["t"], soon()).exists(T0)
