"""The driver over a little Kafka: from offset to offset, and what a micro-batch reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from wire.little import LittleKafka
from wire.scripted import Close

from spark_source.errors import (
    BrokerError,
    ConnectionLost,
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    OptionError,
    PartitionGone,
)
from spark_source.model import NO_TOPIC_ID, TopicPartition
from spark_source.offsets import Offsets, Position, from_json
from spark_source.watch.driver import Driver

from .helpers import ALWAYS, T0, T1, U0, at, logged, query, read

NO_IDS = {MetadataRequest: (0, 9)}  # a broker before Kafka 2.8


@pytest.fixture
def driver(kafka: LittleKafka) -> Driver:
    """A query over all of t."""
    return query(kafka)


STARTS: list[tuple[str, dict[TopicPartition, tuple[int, int]]]] = [
    ("earliest", {T0: (1, 0), T1: (0, 0)}),
    ("latest", {T0: (3, 0), T1: (1, 0)}),
    ('{"t":{"0":2,"1":-1}}', {T0: (2, 0), T1: (1, 0)}),
    ('{"t":{"0":-2,"1":0}}', {T0: (1, 0), T1: (0, 0)}),
    ('{"t":{"0":99,"1":-2}}', {T0: (99, -1), T1: (0, 0)}),
]


@pytest.mark.parametrize(("text", "expected"), STARTS)
def test_initial_offsets(
    kafka: LittleKafka, text: str, expected: dict[TopicPartition, tuple[int, int]]
) -> None:
    """A new query starts where ``startingOffsets`` says; -1 is latest and -2 earliest."""
    kafka.log(T0).start = 1
    driver = query(kafka, startingOffsets=text)
    found = driver.initial()

    assert expected == found.positions
    assert {"t": kafka.topics["t"].topic_id} == found.topic_ids


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"t":{"0":2}}', "it lacks t-1"),
        ('{"t":{"0":2,"1":1,"2":0}}', "t-2 are not subscribed or don't exist"),
        ('{"u":{"0":2}}', "it lacks t-0, t-1; u-0 are not subscribed or don't exist"),
        ("{}", "it lacks t-0, t-1"),
    ],
)
def test_starting_offsets_that_do_not_match(kafka: LittleKafka, text: str, told: str) -> None:
    """JSON offsets must name every subscribed partition and no other."""
    driver = query(kafka, startingOffsets=text)
    with pytest.raises(OptionError) as caught:
        driver.initial()

    assert (
        f"option startingOffsets must name every subscribed partition and no other: {told} (use "
        "-1 in the offset field for latest, -2 for earliest)"
    ) == str(caught.value)


def test_initial_answer_stays(kafka: LittleKafka) -> None:
    """Spark asks for the initial offset twice, and gets the same answer though the log grew."""
    driver = query(kafka, startingOffsets="latest")
    first = driver.initial()
    kafka.log(T0).append(b"d")

    assert first.to_json() == driver.initial().to_json()


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"subscribe": "t,nope"}, "nope"),
        ({"assign": '{"t":[0,7],"nope":[1]}'}, "nope-1, t-7"),
    ],
)
def test_missing_at_the_start(kafka: LittleKafka, given: dict[str, str], missing: str) -> None:
    """A new query over a topic or partition that does not exist is an error that names it."""
    driver = query(kafka, **given)
    with pytest.raises(PartitionGone) as caught:
        driver.initial()

    assert (
        f"{missing}: no such topic or partition at {kafka.bootstrap}; create it, or mend the "
        "options subscribe or assign"
    ) == str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "t"}, {T0, T1}),
        ({"subscribe": "u,t"}, {T0, T1, U0}),
        ({"assign": '{"t":[1],"u":[0]}'}, {T1, U0}),
        ({"subscribePattern": "[tu]"}, {T0, T1, U0}),
        ({"subscribePattern": "^u"}, {U0}),
        ({"subscribePattern": "zzz"}, set()),
    ],
)
def test_subscriptions(
    kafka: LittleKafka, given: dict[str, str], expected: set[TopicPartition]
) -> None:
    """Topics by name, partitions by number, or names by pattern, but no internal topics."""
    kafka.create("u")
    kafka.create("__tu", internal=True)
    driver = query(kafka, **given)

    assert expected == set(driver.initial().positions)


def test_batch_after_batch(kafka: LittleKafka, driver: Driver) -> None:
    """Each micro-batch begins where the last one ended, and reads what came since."""
    start = logged(driver.initial())
    first = logged(driver.latest(start, None))
    assert {T0: (0, 3), T1: (0, 1)} == read(driver, start, first)

    kafka.log(T1).append(b"y", b"z")
    second = logged(driver.latest(first, None))

    assert {T1: (1, 3)} == read(driver, first, second)


def test_idle_is_none(kafka: LittleKafka, driver: Driver) -> None:
    """With nothing new there is no new offset, before and after the first batch."""
    empty = query(kafka, startingOffsets="latest")
    assert empty.latest(logged(empty.initial()), None) is None
    end = logged(driver.latest(logged(driver.initial()), None))

    assert driver.latest(end, None) is None
    assert {} == read(driver, end, end)


def test_idle_without_topic_ids() -> None:
    """Brokers that have no topic ids do not make an idle query busy."""
    with LittleKafka(1, NO_IDS) as kafka:
        kafka.create("t", 2)
        driver = query(kafka)
        start = logged(driver.initial())

        assert {} == start.topic_ids
        assert driver.latest(start, None) is None


def test_idle_without_topics(kafka: LittleKafka) -> None:
    """A pattern that no topic has yet makes no empty micro-batches (SPARK-41375)."""
    driver = query(kafka, subscribePattern="^later", **ALWAYS)
    start = logged(driver.initial())
    assert driver.latest(start, None) is None

    kafka.create("later")
    kafka.log(TopicPartition("later", 0)).append(b"a")

    end = logged(driver.latest(start, None))
    assert {TopicPartition("later", 0): (0, 1)} == read(driver, start, end)


def test_epoch_change_alone_is_idle(kafka: LittleKafka, driver: Driver) -> None:
    """A new leader without new records makes no micro-batch."""
    end = logged(driver.latest(logged(driver.initial()), None))
    kafka.elect(T0, 2)

    assert driver.latest(end, None) is None


def test_positions_carry_their_epoch(kafka: LittleKafka, driver: Driver) -> None:
    """A position that moves has the leader's epoch, one that stays keeps its own."""
    end = logged(driver.latest(logged(driver.initial()), None))
    for tp in (T0, T1):
        kafka.elect(tp, 1)
    kafka.log(T0).append(b"d")

    assert {T0: Position(4, 1), T1: Position(1, 0)} == logged(driver.latest(end, None)).positions


def test_first_batch_tells_where_it_starts(kafka: LittleKafka, driver: Driver) -> None:
    """The end of batch 0 carries ``from``, later ones do not."""
    start = logged(driver.initial())
    first = logged(driver.latest(start, None))
    kafka.log(T0).append(b"d")
    second = logged(driver.latest(first, None))

    assert start.positions == first.first_batch
    assert second.first_batch is None


def test_retried_first_batch(kafka: LittleKafka) -> None:
    """After a crash in batch 0 it is read from its own ``from``, not from today's ``latest``."""
    before = query(kafka, startingOffsets="latest")
    start = logged(before.initial())
    kafka.log(T0).append(b"d", b"e")
    end = logged(before.latest(start, None))
    kafka.log(T0).append(b"f", b"g")

    after = query(kafka, startingOffsets="latest")
    anew = logged(after.initial())
    assert {T0: 7, T1: 1} == at(anew)

    assert {T0: (3, 5)} == read(after, anew, end)


def test_splits_first_after_a_restart(kafka: LittleKafka, driver: Driver) -> None:
    """An uncommitted batch is planned by a new driver from its two offsets alone."""
    start = logged(driver.initial())
    end = logged(driver.latest(start, None))
    kafka.log(T0).append(b"d")
    after = query(kafka)

    assert {T0: (0, 3), T1: (0, 1)} == read(after, start, end)


def test_new_partitions_begin_at_earliest(kafka: LittleKafka) -> None:
    """Partitions that are added later are read from their beginning, also with ``latest``."""
    driver = query(kafka, startingOffsets="latest", **ALWAYS)
    start = logged(driver.initial())
    driver.latest(start, None)
    kafka.topics["t"].logs += [type(kafka.log(T0))(leader=1), type(kafka.log(T0))(leader=2)]
    kafka.log(TopicPartition("t", 2)).append(b"n", b"m")
    end = logged(driver.latest(start, None))

    assert {TopicPartition("t", 2): (0, 2)} == read(driver, start, end)


def test_limit(kafka: LittleKafka, driver: Driver) -> None:
    """maxOffsetsPerTrigger 10 over 101/11/1 records gives 8/1/1, then 9/1/0, then all of it."""
    logs = kafka.create("t", 3)
    for log, size in zip(logs, (101, 11, 1), strict=True):
        log.append(*[b"v"] * size)
    offsets = logged(driver.initial())
    seen: list[tuple[int, ...]] = []
    while (end := driver.latest(offsets, 10)) is not None:
        before, offsets = offsets, logged(end)
        sizes = {tp.partition: b - a for tp, (a, b) in read(driver, before, offsets).items()}
        seen.append(tuple(sizes.get(p, 0) for p in range(3)))

    assert [(8, 1, 1), (9, 1, 0)] == seen[:2]
    assert [101, 11, 1] == [sum(column) for column in zip(*seen, strict=True)]


def test_limit_survives_a_restart(kafka: LittleKafka, driver: Driver) -> None:
    """A limited batch that is planned again by a new driver reads the same offsets."""
    start = logged(driver.initial())
    end = logged(driver.latest(start, 2))
    expected = read(driver, start, end)
    after = query(kafka)

    assert expected == read(after, start, end)


def test_available_now(kafka: LittleKafka, driver: Driver) -> None:
    """An AvailableNow query ends at the log ends of its first look-up, in as many batches."""
    start = logged(driver.initial())
    driver.prepare_available_now()
    kafka.log(T0).append(b"before")
    first = logged(driver.latest(start, 2))
    kafka.log(T0).append(b"after", b"after")
    kafka.log(T1).append(b"after")
    ends = [first]
    while (end := driver.latest(ends[-1], 2)) is not None:
        ends.append(logged(end))

    assert {T0: 4, T1: 1} == at(ends[-1])
    assert len(ends) > 1


def test_available_now_with_a_partition_gone(kafka: LittleKafka, driver: Driver) -> None:
    """An AvailableNow query fails when a planned partition vanishes, whatever the loss policy."""
    lenient = query(kafka, failOnDataLoss="false")
    start = logged(lenient.initial())
    lenient.prepare_available_now()
    first = logged(lenient.latest(start, 1))
    del kafka.topics["t"]
    with pytest.raises(PartitionGone, match="t-0, t-1: lost while an AvailableNow query"):
        lenient.latest(first, 1)


def test_available_now_twice(kafka: LittleKafka, driver: Driver) -> None:
    """Each preparation takes a new snapshot."""
    driver.prepare_available_now()
    end = logged(driver.latest(logged(driver.initial()), None))
    kafka.log(T0).append(b"d")
    assert driver.latest(end, None) is None
    driver.prepare_available_now()

    assert {T0: 4, T1: 1} == at(driver.latest(end, None))


def test_last_known(kafka: LittleKafka, driver: Driver) -> None:
    """Progress is told the log ends of the last look-up, without another one."""
    assert driver.last_known() is None
    driver.latest(logged(driver.initial()), 1)
    asked = len(kafka.asked(ListOffsetsRequest))
    kafka.log(T0).append(b"d")

    assert {T0: 3, T1: 1} == at(driver.last_known())
    assert asked == len(kafka.asked(ListOffsetsRequest))


def test_connector_checkpoint(kafka: LittleKafka, driver: Driver) -> None:
    """A checkpoint of Spark's connector is taken up, and has topic ids from then on."""
    plain = from_json({"t": {"0": 3, "1": 1}})
    upgraded = logged(driver.latest(plain, None))

    assert at(plain) == at(upgraded)
    assert {"t": kafka.topics["t"].topic_id} == upgraded.topic_ids
    assert {} == read(driver, plain, upgraded)
    assert driver.latest(upgraded, None) is None


def test_connector_checkpoint_goes_on(kafka: LittleKafka, driver: Driver) -> None:
    """From a connector's checkpoint exactly what came since is read."""
    plain = from_json({"t": {"0": 1, "1": 1}})

    assert {T0: (1, 3)} == read(driver, plain, logged(driver.latest(plain, None)))


def test_splits_know_leader_and_topic(kafka: LittleKafka) -> None:
    """A range has all that a task needs: leader, epoch, topic id; and the query its name."""
    kafka.elect(T0, 2)
    driver = query(kafka, kfetch__rowsPerSplit="0")
    start = logged(driver.initial())
    splits = driver.splits(start, logged(driver.latest(start, None)))

    assert 2 == len(splits)
    assert 1 == len({split.query for split in splits})
    (first,) = splits[0].ranges
    assert T0 == first.tp
    assert kafka.topics["t"].topic_id == first.topic_id != NO_TOPIC_ID
    assert (kafka.nodes[2].broker, 1) == (first.leader, first.leader_epoch)


def test_small_ranges_share_a_split(kafka: LittleKafka, driver: Driver) -> None:
    """Partitions that trickle share a task."""
    start = logged(driver.initial())

    assert 1 == len(driver.splits(start, logged(driver.latest(start, None))))


def test_no_leader_at_planning(kafka: LittleKafka) -> None:
    """A partition that stays without a leader can't be planned; the error says what to do."""
    driver = query(kafka, kafka__request__timeout__ms="300")
    start = logged(driver.initial())
    end = logged(driver.latest(start, None))
    kafka.elect(T1, None)
    with pytest.raises(BrokerError, match="t-1 has no leader: start its brokers, or wait"):
        driver.splits(start, end)


def test_an_election_at_planning_is_waited_for(kafka: LittleKafka, driver: Driver) -> None:
    """A partition whose leader is elected a moment later is planned."""
    start = logged(driver.initial())
    end = logged(driver.latest(start, None))
    leader = kafka.log(T1).leader
    kafka.elect(T1, None)
    threading.Timer(0.2, kafka.elect, (T1, leader)).start()

    assert 1 == len(driver.splits(start, end))


@pytest.mark.parametrize(("retries", "works"), [("0", False), ("1", True)])
def test_look_ups_are_repeated(kafka: LittleKafka, retries: str, works: bool) -> None:
    """``fetchOffset.numRetries`` is how often a failed look-up is repeated."""
    driver = query(
        kafka,
        fetchOffset__numRetries=retries,
        kafka__request__timeout__ms="50",
        kafka__retry__backoff__ms="100",
        kafka__retry__backoff__max__ms="100",
    )
    for node in kafka.nodes.values():
        node.answer(MetadataRequest, Close())
    if works:
        assert driver.initial().positions
    else:
        with pytest.raises(ConnectionLost, match="asking for metadata: no success in 1 tries"):
            driver.initial()


def test_an_idle_query_asks_for_nothing(kafka: LittleKafka, driver: Driver) -> None:
    """Once begun, look-ups cost neither ListOffsets nor Metadata, with or without new records."""
    end = logged(driver.latest(logged(driver.initial()), None))
    asked = [len(kafka.asked(api)) for api in (ListOffsetsRequest, MetadataRequest)]
    for _ in range(5):
        assert driver.latest(end, None) is None
    kafka.log(T0).append(b"d")
    end = logged(driver.latest(end, None))

    assert {T0: 4, T1: 1} == at(end)
    assert asked == [len(kafka.asked(api)) for api in (ListOffsetsRequest, MetadataRequest)]


def test_sessions_travel_in_the_offset(kafka: LittleKafka, driver: Driver) -> None:
    """An offset that moved carries the sessions of its time; one that did not stays as it is,
    though the sessions go on."""
    end = logged(driver.latest(logged(driver.initial()), None))
    kafka.log(T0).append(b"d")
    end = logged(driver.latest(end, None))

    assert {n: kafka.sessions(n)[0].id for n in (1, 2)} == {
        n: s[0] for n, s in end.sessions.items()
    }
    assert all(epoch > 0 for _, epoch in end.sessions.values())
    assert driver.latest(end, None) is None


def test_a_new_driver_closes_the_old_sessions(kafka: LittleKafka, driver: Driver) -> None:
    """After a crash the checkpoint's sessions are replaced at the brokers, not added to."""
    end = logged(driver.latest(logged(driver.initial()), None))
    kafka.log(T0).append(b"d")
    end = logged(driver.latest(end, None))
    before = {session.id for n in (1, 2) for session in kafka.sessions(n)}
    after = query(kafka)  # the first driver lives on, but nobody polls for it
    after.latest(end, None)

    assert [1, 1] == [len(kafka.sessions(n)) for n in (1, 2)]
    assert before.isdisjoint(session.id for n in (1, 2) for session in kafka.sessions(n))


def test_another_start_is_looked_at_whole(kafka: LittleKafka, driver: Driver) -> None:
    """A start that was not expected, as after an end that Spark did not take up, loses nothing."""
    start = logged(driver.initial())
    first = logged(driver.latest(start, None))
    assert at(first) == at(driver.latest(start, None))
    assert {T0: (0, 3), T1: (0, 1)} == read(driver, start, first)


def test_a_busy_query_is_not_held_up(
    kafka: LittleKafka, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another source moves the query, an idle one waits for moments, not for a long poll."""
    waits: list[float] = []
    monkeypatch.setattr(driver._watch, "wait", lambda seconds: bool(waits.append(seconds)))
    end = logged(driver.latest(logged(driver.initial()), None))
    driver.committed()  # of the batch just planned
    driver.latest(end, None)
    driver.committed()  # of a batch that had nothing of ours
    driver.latest(end, None)
    driver.latest(end, None)

    assert [0.5, 0.01, 0.5] == [round(seconds, 2) for seconds in waits]


def cut(kafka: LittleKafka) -> None:
    """The log ends below the promised end."""
    kafka.log(T0).truncate(0)


def replaced(kafka: LittleKafka) -> None:
    """The log was truncated, and has grown past the promised end under another leader."""
    kafka.log(T0).truncate(0)
    kafka.elect(T0, 2)
    kafka.log(T0).append(*[b"n"] * 9)


@pytest.mark.parametrize(("damage", "kind"), [(cut, OffsetBeyondLog), (replaced, LogTruncated)])
def test_available_now_that_shrinks(
    kafka: LittleKafka, damage: Callable[[LittleKafka], None], kind: type[DataLoss]
) -> None:
    """An AvailableNow query fails when its end is lost while it reads, whatever the loss policy."""
    driver = query(kafka, failOnDataLoss="false")
    start = logged(driver.initial())
    driver.prepare_available_now()
    first = logged(driver.latest(start, 1))
    assert at(first) == {T0: 1, T1: 1}
    damage(kafka)
    with pytest.raises(kind, match="lost while an AvailableNow query was reading"):
        driver.latest(first, 1)


def test_losses_are_counted_in_the_report(kafka: LittleKafka, tmp_path: Path) -> None:
    """The driver's file tells each loss once, and what watching cost."""
    driver = query(kafka, failOnDataLoss="false", kfetch__statsDirectory=str(tmp_path))
    end = logged(driver.latest(logged(driver.initial()), None))
    kafka.create("t", 2)
    kafka.log(T0).append(b"new")
    after = logged(driver.latest(end, None))
    read(driver, end, after)
    driver.close()
    (report,) = (tmp_path / "driver").iterdir()
    told = json.loads(report.read_text())

    assert {"TopicRecreated": 2} == told["losses"]
    assert told["watch"]["incremental_requests"] > 0


def test_a_leader_that_resigns_while_splits_are_planned(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits name the leader of the moment before: tasks look for its successor, planning does not
    fail."""
    driver = query(kafka)
    start = driver.initial()
    end = driver.latest(start, None)
    assert end is not None
    honest = driver._loss.sound

    def resigning(offsets: Offsets) -> Offsets:
        kafka.elect(T0, None)
        driver._watch.take()
        return honest(offsets)

    monkeypatch.setattr(driver._loss, "sound", resigning)

    assert {T0, T1} == {item.tp for split in driver.splits(start, end) for item in split.ranges}
