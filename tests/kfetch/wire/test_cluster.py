"""A cluster to ask: the right broker, another try when it moved, and errors that are final."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch.errors import BrokerError, ConnectionLost, KfetchError, WireError, WrongListener
from kfetch.model import TopicPartition
from kfetch.options import NetworkOptions, parse
from kfetch.wire import cluster as wire_cluster
from kfetch.wire import retry
from kfetch.wire.cluster import Cluster
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.retry import PacedRepair, RetryPauses, retrying
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, ScriptedBroker, Silence

OPTIONS = NetworkOptions(
    request_timeout_s=5.0, connect_timeout_s=5.0, retry_backoff_s=0.001, retry_backoff_max_s=0.004
)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SHORT_S = 0.1
LEADER_NOT_AVAILABLE, NOT_LEADER, UNAUTHORIZED = 5, 6, 29


def soon(seconds: float = 10.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the retries."""
    made = Clock()
    monkeypatch.setattr(retry, "time", made)
    return made


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    """Two nodes; t-0 is led by the first, t-1 by the second."""
    with LittleKafka(2) as running:
        running.create("t", 2)
        running.log(T0).append(b"a")
        running.log(T1).append(b"a", b"b")
        yield running


@pytest.fixture
def cluster(kafka: LittleKafka) -> Iterator[Cluster]:
    """A cluster that knows both nodes' addresses."""
    made = Cluster(tuple(("127.0.0.1", n.port) for n in kafka.nodes.values()), OPTIONS)
    yield made
    made.close()


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
        node.port = 0
        node.start()

    assert len(cluster._connections) <= 3


def test_leader_moves(kafka: LittleKafka, cluster: Cluster) -> None:
    """NOT_LEADER is followed by metadata and the new leader; who answered is not asked again."""

    def moved(request: Any) -> Any:
        kafka.elect(T0, 2)
        return kafka._list_offsets(1, request)

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
        return kafka._metadata(request)

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
    original = kafka._list_offsets

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
        reply = kafka._metadata(request)
        topic = refused(version=request.API_VERSION, name="t", partitions=[])
        topic.error_code = LEADER_NOT_AVAILABLE
        reply.topics = [topic]
        return reply

    for node in kafka.nodes:  # whoever would be asked first
        kafka.nodes[1].always(MetadataRequest, kafka._metadata)
        kafka.nodes[2].always(MetadataRequest, kafka._metadata)
        kafka.nodes[node].always(MetadataRequest, refuse)

        assert {0, 1} == {*cluster.view({"t"}, soon(1)).topics["t"].leaders}


def test_dead_bootstrap_broker(kafka: LittleKafka) -> None:
    """The next bootstrap broker is asked when the first is down."""
    with ScriptedBroker() as dead:
        pass
    addresses = (("127.0.0.1", dead.port), ("127.0.0.1", kafka.nodes[2].port))
    cluster = Cluster(addresses, OPTIONS)

    assert cluster.view(["t"], soon()).exists(T0)
    cluster.close()


def test_a_new_start_at_the_bootstrap_servers(kafka: LittleKafka) -> None:
    """After REBOOTSTRAP_REQUIRED the known brokers are left, and the bootstrap servers asked."""
    with LittleKafka() as other:
        other.create("elsewhere")
        addresses = (("127.0.0.1", kafka.nodes[1].port), ("127.0.0.1", other.nodes[1].port))
        cluster = Cluster(addresses, OPTIONS)
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


def _rebootstrap(request: Any) -> MetadataResponse:
    return MetadataResponse(
        version=request.API_VERSION,
        error_code=129,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=[],
    )


def test_silent_bootstrap_broker_costs_its_share(kafka: LittleKafka) -> None:
    """A server that accepts and never answers leaves the others their share of the deadline."""
    with ScriptedBroker() as mute:
        mute.always(ApiVersionsRequest, Silence())
        addresses = (("127.0.0.1", mute.port), ("127.0.0.1", kafka.nodes[2].port))
        cluster = Cluster(addresses, replace(OPTIONS, request_timeout_s=30.0))
        began = time.monotonic()
        view = cluster.view(["t"], began + 0.6)
        took_s = time.monotonic() - began
        cluster.close()

    assert view.exists(T0)
    assert took_s < 0.6


def test_shares_of_many_servers(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers share the time evenly. Of many servers, one gets 5 s, or half of a shorter time."""
    monkeypatch.setattr(wire_cluster, "time", clock)
    cluster = Cluster((), replace(OPTIONS, request_timeout_s=20.0))

    assert [10, 15, 20] == [cluster._share_end(130.0, n) - clock.now for n in (3, 2, 1)]
    assert 5 == cluster._share_end(130.0, 1000) - clock.now
    assert [2, 1] == [cluster._share_end(until, 1000) - clock.now for until in (104.0, 102.0)]


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
    cluster = Cluster((address(wrong),), OPTIONS, patient=patient)
    with pytest.raises(WrongListener, match=r"by SASL \(PLAIN\)") as caught:
        cluster.view(["t"], soon(0.4))

    assert patient == (len(wrong.asked(MetadataRequest)) > 1)
    assert patient == ("no success in" in caught.value.message)
    assert patient == any("expects a log-in by SASL" in text for text in caplog.messages)


def test_a_wrong_listener_beside_a_broker_that_is_away(wrong: ScriptedBroker) -> None:
    """While a server may be starting, kfetch retries. The error names the wrong listener."""
    with ScriptedBroker() as dead:
        pass
    cluster = Cluster((address(dead), address(wrong)), OPTIONS, patient=False)
    with pytest.raises(WrongListener, match="no success in"):
        cluster.view(["t"], soon(0.4))


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
        cluster.view(["t"], soon(0.4))

    assert any("expects a log-in by SASL" in text for text in caplog.messages)
    cluster.close()


def test_a_later_hint_is_told(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong listener that shows after other causes gets its own warning, once, and the error."""
    hints = [WrongListener("h:1 expects TLS"), WrongListener("h:1 expects TLS")]
    causes = [ConnectionLost("refused"), *hints, *[ConnectionLost("closed")] * 10_000]
    with pytest.raises(WrongListener, match="the first cause: h:1 expects TLS"):
        retrying("asking", failing(*causes), OPTIONS, clock.now + 5)

    assert ["kfetch: refused", "kfetch: h:1 expects TLS"] == [
        text.partition(";")[0] for text in caplog.messages
    ]


def test_broker_that_closes(kafka: LittleKafka, cluster: Cluster) -> None:
    """A connection that the broker closed is opened again, and the question asked again."""
    cluster.offsets({T0: -1}, soon())
    kafka.nodes[1].answer(ListOffsetsRequest, Close(), Close())

    assert 1 == cluster.offsets({T0: -1}, soon())[T0].offset


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


def test_epoch_ends_of_an_old_broker() -> None:
    """Where the broker is too old to be asked, the answer is None at once."""
    with LittleKafka(1, {OffsetForLeaderEpochRequest: (0, 2)}) as kafka:
        kafka.create("t")
        cluster = Cluster((("127.0.0.1", kafka.nodes[1].port),), OPTIONS)

        assert {T0: None} == cluster.epoch_ends({T0: 0}, soon())
        cluster.close()


def test_pauses_double(clock: Clock) -> None:
    """Pauses double up to the longest one, each within 20 %."""
    pauses = RetryPauses(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    assert all(pauses.wait(1000.0) for _ in range(6))

    expected = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    for expected_s, slept in zip(expected, clock.slept, strict=True):
        assert 0.8 * expected_s <= slept <= 1.2 * expected_s
    assert 6 == pauses.tries


def test_the_longest_pause_limits_the_first(clock: Clock) -> None:
    """If ``retry.backoff.ms`` is above ``retry.backoff.max.ms``, every pause is the longest one."""
    pauses = RetryPauses(NetworkOptions(retry_backoff_s=5.0, retry_backoff_max_s=0.1))
    assert all(pauses.wait(1000.0) for _ in range(3))

    assert all(0.08 <= slept <= 0.12 for slept in clock.slept)


def test_options_of_zero_are_no_hot_loop(clock: Clock) -> None:
    """With ``kafka.retry.backoff.ms=0`` retries have pauses, and the pauses double."""
    zero = {"kafka.retry.backoff.ms": "0", "kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    causes = [ConnectionLost("x")] * 100
    with pytest.raises(ConnectionLost):
        retrying("asking", failing(*causes), parse(zero).network, clock.now + 5)

    assert len(clock.slept) < 20


def test_a_new_fault_is_repaired_at_once_and_a_lasting_one_with_back_off() -> None:
    """In 10 s a lasting fault gets few repairs. A new fault waits for no pause of another one."""
    repair = PacedRepair(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    times = [100 + step / 100 for step in range(1000)]
    repairs = [now for now in times if repair.is_due(now, {"a"})]

    assert 100 == repairs[0]
    assert 10 <= len(repairs) <= 20
    assert repair.is_due(times[-1], {"a", "b"})
    assert not repair.is_due(times[-1], {"a", "b"})


def test_repairs_start_again_after_calm() -> None:
    """A fault that comes back after the longest pause without faults is repaired at once."""
    repair = PacedRepair(NetworkOptions(retry_backoff_s=0.1, retry_backoff_max_s=1.0))
    assert repair.is_due(100.0, {"a"})
    assert not repair.is_due(100.05, ())
    assert not repair.is_due(100.06, {"a"})
    assert not repair.is_due(101.2, ())

    assert repair.is_due(101.21, {"a"})
    assert not repair.is_due(101.28, {"a"})


def test_no_pause_past_the_deadline(clock: Clock) -> None:
    """A pause that would pass the deadline is not begun."""
    pauses = RetryPauses(NetworkOptions(retry_backoff_s=0.1))

    assert pauses.wait(clock.now + 0.05) is False
    assert [] == clock.slept


def failing(*causes: KfetchError, then: str = "done") -> Callable[[], str]:
    """Raises one cause after the other, then works."""
    left = list(causes)

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return then

    return attempt


@pytest.mark.parametrize(
    "causes", [[], [ConnectionLost("a")], [ConnectionLost("a"), BrokerError("b", retriable=True)]]
)
def test_retrying_until_it_works(clock: Clock, causes: list[KfetchError]) -> None:
    """Lost connections and retriable errors are tried again, after a pause each."""
    assert "done" == retrying("asking", failing(*causes), OPTIONS, 1000.0)
    assert len(causes) == len(clock.slept)


@pytest.mark.parametrize(
    "cause",
    [BrokerError("final", retriable=False), BrokerError("final"), WireError("w"), KfetchError("k")],
)
def test_final_errors_are_not_retried(clock: Clock, cause: KfetchError) -> None:
    """Every other error is raised at once, as it is."""
    with pytest.raises(KfetchError) as caught:
        retrying("asking", failing(cause), OPTIONS, 1000.0)

    assert cause is caught.value
    assert [] == clock.slept


def test_giving_up_tells_the_first_cause(clock: Clock) -> None:
    """At the deadline the error is the first cause, in its own class, with its context."""
    causes = [BrokerError("first", code=6, retriable=True), *[ConnectionLost("x")] * 10_000]
    options = NetworkOptions(retry_backoff_s=1.0, retry_backoff_max_s=1.0)
    with pytest.raises(BrokerError) as caught:
        retrying("asking", failing(*causes), options, clock.now + 5)

    tries = len(clock.slept) + 1
    assert f"asking: no success in {tries} tries; the first cause: first" == caught.value.message
    assert {"code": 6, "retriable": True} == caught.value.where


@pytest.mark.parametrize(
    ("deadline_s", "give_up_after_s", "warned_s"),
    [(5, None, "5"), (5, 9, "9"), (5, 2, "5"), (0, None, None), (0, 9, "9")],
)
def test_no_more_time_is_promised_than_there_is(
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    deadline_s: int,
    give_up_after_s: int | None,
    warned_s: str | None,
) -> None:
    """The warning counts up to the later deadline; without time left there is no warning."""
    give_up_at = None if give_up_after_s is None else clock.now + give_up_after_s
    with suppress(ConnectionLost):
        deadline = clock.now + deadline_s
        retrying("asking", failing(ConnectionLost("x")), OPTIONS, deadline, give_up_at)

    expected = [] if warned_s is None else [f"kfetch: x; trying again for {warned_s} s"]
    assert expected == caplog.messages
