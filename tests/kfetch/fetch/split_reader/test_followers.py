"""Reads from followers (KIP-392): where records come from, and the way back to the leader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch.agent.inline import InlineQuery
from kfetch.errors import CorruptBatch, DataLoss, KfetchError, ReadStalled
from kfetch.fetch import broker_reader
from tests.kfetch.fetch.helpers import T0, T1, by_partition, expected, opened, part, query, rows
from tests.kfetch.wire.log import batch
from tests.kfetch.wire.racks import RackKafka
from tests.kfetch.wire.scripted import Close, Silence

BATCHES = 8
END = 2 * BATCHES
OUT_OF_RANGE, CORRUPT, DENIED, NOT_AVAILABLE = 1, 2, 29, 78


def filled(kafka: RackKafka) -> RackKafka:
    """t-0 is led by node 1, t-1 by node 2; each has 16 records in 8 batches."""
    kafka.create("t", 2)
    for tp in (T0, T1):
        for n in range(BATCHES):
            kafka.log(tp).append(f"{tp} {n}a".encode(), f"{tp} {n}b".encode())
    return kafka


@pytest.fixture
def kafka() -> Iterator[RackKafka]:
    """Three nodes in three racks."""
    with RackKafka() as running:
        yield filled(running)


@pytest.fixture(autouse=True)
def check_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of a replica is checked after every reply."""
    monkeypatch.setattr(broker_reader, "_CHECK_S", 0.0)


def in_rack(kafka: RackKafka, rack: str = "r3", **more: str) -> InlineQuery:
    """An inline query of an executor in a rack."""
    return query(kafka, kafka__client__rack=rack, kafka__fetch__max__wait__ms="20", **more)


def test_records_come_from_the_rack(kafka: RackKafka) -> None:
    """Every record byte comes from the follower in the executor's rack, and no record is lost."""
    ranges = [part(kafka, T0, 0, END), part(kafka, T1, 0, END)]
    reading = in_rack(kafka)

    assert expected(kafka, *ranges) == by_partition(rows(reading.read(ranges)))
    assert [3] == kafka.nodes_of(T0) == kafka.nodes_of(T1)
    assert 0 == reading.stats().other_rack_bytes
    assert 1 == len(kafka.sessions(3))


def test_a_leader_in_the_rack_is_read(kafka: RackKafka) -> None:
    """A leader in the rack names nobody: its partition stays, the other one moves."""
    ranges = [part(kafka, T0, 0, END), part(kafka, T1, 0, END)]

    assert expected(kafka, *ranges) == by_partition(rows(in_rack(kafka, "r2").read(ranges)))
    assert [2] == kafka.nodes_of(T0) == kafka.nodes_of(T1)


@pytest.mark.parametrize("rack", ["", "elsewhere"])
def test_without_a_replica_in_the_rack(kafka: RackKafka, rack: str) -> None:
    """Without a rack, or in a rack without brokers, leaders are read."""
    ranges = [part(kafka, T0, 0, END), part(kafka, T1, 0, END)]
    reading = in_rack(kafka, rack) if rack else query(kafka)

    assert expected(kafka, *ranges) == by_partition(rows(reading.read(ranges)))
    assert [1] == kafka.nodes_of(T0)
    assert (reading.stats().other_rack_bytes > 0) is bool(rack)


@pytest.mark.parametrize("version", [4, 7, 10, 11, 12, 13, 18])
def test_versions(version: int) -> None:
    """A broker that knows no racks (before Fetch v11) serves from its leaders."""
    with RackKafka(3, {FetchRequest: (0, version)}) as kafka:
        filled(kafka)
        item = part(kafka, T0, 0, END)

        assert expected(kafka, item) == rows(in_rack(kafka).read([item]))
        assert [3 if version >= 11 else 1] == kafka.nodes_of(T0)


def test_the_leader_is_asked_once(kafka: RackKafka) -> None:
    """Later micro-batches go straight to the follower; metadata is asked for once."""
    reading = in_rack(kafka)
    for start in range(0, END, 4):
        item = part(kafka, T0, start, start + 4)
        assert expected(kafka, item) == rows(reading.read([item]))

    assert 1 == len(kafka.nodes[1].asked(FetchRequest))
    assert 1 == len(kafka.asked(MetadataRequest))
    assert [3] == kafka.nodes_of(T0)


def test_a_rack_travels_only_with_a_question(kafka: RackKafka) -> None:
    """A leader that has answered is not asked again: its next requests name no rack."""
    item = part(kafka, T1, 0, END)
    rows(in_rack(kafka, "r2").read([item]))

    assert ["r2"] == [rack for rack in kafka.racks(2) if rack]
    assert len(kafka.racks(2)) > BATCHES / 2


def test_short_micro_batches_ask_once(kafka: RackKafka) -> None:
    """A leader's answer counts for later micro-batches, also if its reply ends the range."""
    reading = in_rack(kafka, "r2")
    for start in range(0, END, 2):
        item = part(kafka, T1, start, start + 2)
        assert expected(kafka, item) == rows(reading.read([item]))

    assert ["r2"] == [rack for rack in kafka.racks(2) if rack]


def test_the_leader_is_asked_again_after_the_period(kafka: RackKafka) -> None:
    """After metadata.max.age the leader is asked again, in the midst of a range too."""
    reading = in_rack(kafka)

    def period_over(request: object) -> object:
        """Ends the period of the follower's choice, and gives its usual answer."""
        reading.replicas._choices.clear()
        for queue in reading._brokers[kafka.nodes[3].broker]._reader._queues.values():
            queue[0].choice = replace(queue[0].choice, until=0.0)
        return kafka.nodes[3].handlers[FetchRequest](request)

    kafka.nodes[3].answer(FetchRequest, period_over)
    item = part(kafka, T0, 0, END)

    assert expected(kafka, item) == rows(reading.read([item]))
    assert [3] == kafka.nodes_of(T0)
    assert 2 == len([rack for rack in kafka.racks(1) if rack])


ERRORS = [-1, 1, 2, 3, 5, 6, 9, 29, 56, 74, 75, 78, 100, 103]


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_at_a_follower(kafka: RackKafka, code: int) -> None:
    """After any error of a follower the leader is read, without a pause, for a whole period."""
    kafka.follower_errors[T0] += [0, 0, code]
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka)

    assert expected(kafka, item) == rows(reading.read([item]))
    assert [1] == kafka.nodes_of(T0)[-1:]
    assert 1 == len([rack for rack in kafka.racks(1) if rack])

    before = len(kafka.racks(3))
    assert expected(kafka, item) == rows(reading.read([item]))
    assert before == len(kafka.racks(3))


@pytest.mark.parametrize("end", [0, 2, 10])
def test_a_follower_that_lags(kafka: RackKafka, end: int) -> None:
    """A follower whose log ends before the position is no truncation: the leader has the rest."""
    kafka.offers_anything = True
    kafka.follower_ends[3, T0] = end
    reading = in_rack(kafka)
    reading.replicas.lag_s = 0.0
    ranges = [part(kafka, T0, 4, END)]

    assert expected(kafka, *ranges) == rows(reading.read(ranges))
    assert [1] == kafka.nodes_of(T0)[-1:]
    assert len(kafka.nodes_of(T0)) <= 2


def test_a_follower_with_other_records_is_no_loss(kafka: RackKafka) -> None:
    """A follower that lags may have other records. That is no data loss."""
    kafka.offers_anything = True
    reading = in_rack(kafka)
    item = part(kafka, T0, 0, 8)
    assert expected(kafka, item) == rows(reading.read([item]))
    kafka.follower_ends[3, T0] = 10
    longer = part(kafka, T0, 8, END)
    reading.replicas.lag_s = 0.0

    assert expected(kafka, longer) == rows(reading.read([longer]))


@pytest.mark.parametrize("death", ["stopped", "closes", "silent"])
def test_a_dead_follower(kafka: RackKafka, death: str) -> None:
    """If the follower is down or silent, the task goes on at the leader and does not fail."""
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka, kafka__request__timeout__ms="100")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kfetch.fetch.fetcher._REPLY_GRACE_S", 0.0)
        if death == "stopped":
            kafka.nodes[3].stop()
        else:
            kafka.nodes[3].always(FetchRequest, Close() if death == "closes" else Silence())

        assert expected(kafka, item) == rows(reading.read([item]))
    assert [1] == kafka.nodes_of(T0)


def test_a_follower_that_dies_in_the_midst(kafka: RackKafka) -> None:
    """Records of a follower that dies while it is read come once, the others from the leader."""
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka)
    delivered = reading.read([item])
    first = rows([next(delivered)])
    kafka.nodes[3].stop()

    assert expected(kafka, item) == first + rows(delivered)
    assert [3, 1] == kafka.nodes_of(T0)


def test_a_moved_leader(kafka: RackKafka) -> None:
    """A follower that knows a newer leader sends the range there, and the new leader is asked."""
    reading = in_rack(kafka)
    first, second = part(kafka, T0, 0, 4), part(kafka, T0, 4, END)
    assert expected(kafka, first) == rows(reading.read([first]))
    kafka.elect(T0, 3)

    assert expected(kafka, second) == rows(reading.read([second]))
    assert [3] == kafka.nodes_of(T0)


@pytest.mark.parametrize("hints", [True, False])
def test_a_leader_moves_elsewhere(kafka: RackKafka, hints: bool) -> None:
    """The follower stays the nearest replica: the new leader is asked at once, and names it."""
    reading = in_rack(kafka)
    first, second = part(kafka, T0, 0, 4), part(kafka, T0, 4, END)
    assert expected(kafka, first) == rows(reading.read([first]))
    kafka.hints = hints
    kafka.elect(T0, 2)

    assert expected(kafka, second) == rows(reading.read([second]))
    assert [3] == kafka.nodes_of(T0)


def test_an_unknown_follower(kafka: RackKafka) -> None:
    """A leader that names a broker which metadata does not have is read itself."""
    kafka.always_names = 9
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka, kafkaConsumer__pollTimeoutMs="300")

    # It sends no records whatever kfetch does. So the read ends with an error, after pauses.
    with pytest.raises(ReadStalled, match="it names broker 9 as a follower"):
        rows(reading.read([item]))
    assert len(kafka.asked(FetchRequest)) <= 60


def test_a_selector_that_needs_no_rack(kafka: RackKafka) -> None:
    """A leader that names a follower unasked is obeyed: it would never send records."""
    kafka.always_names = 2
    item = part(kafka, T0, 0, END)

    assert expected(kafka, item) == rows(query(kafka).read([item]))
    assert [2] == kafka.nodes_of(T0)


def test_a_question_does_not_move_others(kafka: RackKafka) -> None:
    """A partition that has left its follower stays at the leader while another one asks there.

    The leader's session forgets the one that moves away."""
    kafka.elect(T1, 1)
    kafka.follower_errors[T0] += [NOT_AVAILABLE]
    reading = in_rack(kafka)
    first = part(kafka, T0, 0, 4)
    assert expected(kafka, first) == rows(reading.read([first]))
    both = [part(kafka, T0, 4, END), part(kafka, T1, 0, END)]

    assert expected(kafka, *both) == by_partition(rows(reading.read(both)))
    assert [1] == kafka.nodes_of(T0)
    assert [3] == kafka.nodes_of(T1)
    assert {T0.partition} == {index for _, index in kafka.sessions(1)[0].partitions}
    assert {T1.partition} == {
        index
        for request in kafka.nodes[1].asked(FetchRequest)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    }


def test_loss_is_decided_by_the_leader(kafka: RackKafka) -> None:
    """A position that has expired is the leader's error, with its words."""
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka)
    rows(reading.read([part(kafka, T0, 0, 2)]))
    kafka.log(T0).expire(6)

    with pytest.raises(DataLoss, match="offsets 0 to 6 have expired unread"):
        rows(reading.read([item]))


def test_a_refusal_is_the_leaders(kafka: RackKafka) -> None:
    """If follower and leader both deny a partition, the error names the leader."""
    kafka.follower_errors[T0] += [DENIED]
    reading = in_rack(kafka)
    rows(reading.read([part(kafka, T1, 0, 2)]))
    kafka.selects = False
    kafka.errors[T0] += [DENIED]

    with pytest.raises(KfetchError, match=r"at broker 1 \("):
        rows(reading.read([part(kafka, T0, 0, END)]))


def test_a_damaged_copy(kafka: RackKafka) -> None:
    """A damaged batch of a follower fails the task. Its retry reads from the leader."""
    kafka.follower_ends[3, T0] = END
    whole = kafka.copy_at
    damaged = bytearray(batch(0, [b"x", b"y"]))
    damaged[-1] ^= 1

    def copy_at(node: int, tp: object) -> object:
        replica = whole(node, tp)  # type: ignore[arg-type]
        if node == 3:
            replica.batches = [(0, 2, 0, bytes(damaged)), *replica.batches[1:]]
        return replica

    kafka.copy_at = copy_at  # type: ignore[method-assign,assignment]
    item = part(kafka, T0, 0, END)
    reading = in_rack(kafka)

    with pytest.raises(CorruptBatch):
        rows(reading.read([item]))
    assert expected(kafka, item) == rows(reading.read([item]))


def test_skipped_batches_are_the_leaders(kafka: RackKafka) -> None:
    """With kfetch.onCorruptBatch=skip, leaders are read: a follower's damage loses no records."""
    item = part(kafka, T0, 0, END)

    rows(in_rack(kafka, kfetch__onCorruptBatch="skip").read([item]))
    assert [1] == kafka.nodes_of(T0)


FAULTS = st.lists(
    st.tuples(
        st.integers(1, END // 2 - 1),
        st.sampled_from(["error", "leader error", "lag", "elect", "evict", "drop"]),
        st.integers(1, 3),
    ),
    max_size=6,
)


@given(FAULTS, st.sampled_from(["r1", "r2", "r3"]), st.booleans())
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_record_once(faults: list[tuple[int, str, int]], rack: str, eager: bool) -> None:
    """Whatever followers and leaders do while micro-batches run, each record comes once."""
    with RackKafka() as kafka:
        filled(kafka)
        kafka.offers_anything = eager
        reading = in_rack(kafka, rack)
        reading.replicas._period_s = 0.01 if eager else 30.0
        reading.replicas.lag_s = 0.0
        try:
            delivered = []
            written = []
            for step in range(END // 2):
                for _, fault, node in [one for one in faults if one[0] == step]:
                    inject(kafka, fault, node)
                ranges = [part(kafka, tp, 2 * step, 2 * step + 2) for tp in (T0, T1)]
                delivered += by_partition(rows(reading.read(ranges)))
                written += expected(kafka, *ranges)
            assert written == delivered
        finally:
            reading.close()
            opened.remove(reading)


def inject(kafka: RackKafka, fault: str, node: int) -> None:
    """Do one thing to the cluster."""
    match fault:
        case "error":
            kafka.follower_errors[T0] += [OUT_OF_RANGE]
        case "leader error":
            kafka.errors[T0] += [6]
        case "lag":
            kafka.follower_ends[node, T0] = 4
        case "elect":
            kafka.elect(T0, node)
        case "evict":
            kafka.evict()
        case "drop":
            kafka.nodes[node].drop()
