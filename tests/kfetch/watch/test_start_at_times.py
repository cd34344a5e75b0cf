"""Queries that start at times, at topic-level words, and at places for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest

from kfetch.errors import OptionError
from kfetch.model import TopicPartition
from kfetch.spark.options import parse
from kfetch.watch import initial_positions
from kfetch.watch.driver import Driver
from kfetch.watch.initial_positions import bound_positions
from kfetch.watch.lookups import OffsetLookup
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, U0, at, logged, query, read
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.log import T0 as FIRST_MS

EMPTY = TopicPartition("t", 2)
LATEST = {"startingOffsetsByTimestampStrategy": "latest"}


def at_ms(*deltas: int) -> str:
    """Returns the JSON of times for t-0, t-1, …; each in ms after the first record."""
    places = ",".join(f'"{p}":{FIRST_MS + delta}' for p, delta in enumerate(deltas))
    return f'{{"t":{{{places}}}}}'


STARTS: list[tuple[dict[str, str], dict[TopicPartition, int]]] = [
    ({"startingTimestamp": str(FIRST_MS)}, {T0: 0, T1: 0}),
    ({"startingTimestamp": str(FIRST_MS - 1)}, {T0: 0, T1: 0}),
    ({"startingTimestamp": "0"}, {T0: 0, T1: 0}),
    ({"startingTimestamp": str(FIRST_MS + 1), **LATEST}, {T0: 1, T1: 1}),
    ({"startingTimestamp": str(FIRST_MS + 3), **LATEST}, {T0: 3, T1: 1}),
    ({"startingTimestamp": "-1"}, {T0: 3, T1: 1}),
    ({"startingTimestamp": "-2"}, {T0: 0, T1: 0}),
    ({"startingTimestamp": "-9999d"}, {T0: 0, T1: 0}),
    ({"startingTimestamp": "-1h", **LATEST}, {T0: 3, T1: 1}),
    ({"startingOffsetsByTimestamp": at_ms(2, 0)}, {T0: 2, T1: 0}),
    ({"startingOffsetsByTimestamp": '{"t":{"0":-1,"*":-2}}'}, {T0: 3, T1: 0}),
    ({"startingOffsetsByTimestamp": f'{{"t":{FIRST_MS}}}'}, {T0: 0, T1: 0}),
    ({"startingOffsetsByTimestamp": '{"t":{"0":"-9999d"},"*":"latest"}'}, {T0: 0, T1: 1}),
    # A time for all beats the others, and times per partition beat offsets.
    (
        {"startingTimestamp": "0", "startingOffsetsByTimestamp": at_ms(2, 0)},
        {T0: 0, T1: 0},
    ),
    ({"startingOffsetsByTimestamp": at_ms(2, 0), "startingOffsets": "latest"}, {T0: 2, T1: 0}),
    ({"startingOffsets": '{"t":"earliest"}'}, {T0: 0, T1: 0}),
    ({"startingOffsets": '{"t":{"0":2,"*":"latest"}}'}, {T0: 2, T1: 1}),
    ({"startingOffsets": '{"t":{"1":0},"*":"latest"}'}, {T0: 3, T1: 0}),
]


@pytest.mark.parametrize(("options", "expected"), STARTS)
def test_starts(
    kafka: LittleKafka, options: dict[str, str], expected: dict[TopicPartition, int]
) -> None:
    """A query starts at the first record of a time or later, and at each partition's place."""
    assert expected == at(query(kafka, **options).initial_offsets())


def test_positions_at_times_have_the_records_epoch(kafka: LittleKafka) -> None:
    """A position from a time has the leader epoch of the answer, so a truncation is found."""
    kafka.elect(T0, 2)
    offsets = query(kafka, startingTimestamp=str(FIRST_MS)).initial_offsets()

    assert {T0: (0, 1), T1: (0, 0)} == offsets.positions


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "subscribing topic by * with non-matching starting offset",
)
@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": str(FIRST_MS + 3)},
        {"startingOffsetsByTimestamp": at_ms(3, 0), "startingOffsetsByTimestampStrategy": "error"},
    ],
)
def test_no_record_is_that_young(kafka: LittleKafka, options: dict[str, str]) -> None:
    """By default a time after all records is an error, in the connector's words."""
    with pytest.raises(OptionError) as caught:
        query(kafka, **options).initial_offsets()

    option = next(iter(options))
    assert caught.value.message == (
        f"No offset matched from request of topic-partition t-0 and timestamp {FIRST_MS + 3}: "
        f"option {option}: choose an earlier time, or set startingOffsetsByTimestampStrategy=latest"
    )


@pytest.mark.parametrize("strategy", ["error", "latest"])
def test_an_empty_partition_has_no_record_of_any_time(kafka: LittleKafka, strategy: str) -> None:
    """An empty partition matches no time, as in the connector: an error, or its log end."""
    kafka.create("t", 3)
    for tp in (T0, T1):
        kafka.log(tp).append(b"a")
    driver = query(kafka, startingTimestamp="0", startingOffsetsByTimestampStrategy=strategy)
    if strategy == "latest":
        assert {T0: 0, T1: 0, EMPTY: 0} == at(driver.initial_offsets())
    else:
        with pytest.raises(OptionError, match="topic-partition t-2 and timestamp 0"):
            driver.initial_offsets()


def test_a_record_between_the_questions_is_not_skipped(kafka: LittleKafka) -> None:
    """Log ends are asked for before times. A record that arrives in between is delivered."""
    answer = kafka.nodes[1].handlers[ListOffsetsRequest]

    def then_append(request: object) -> object:
        reply = answer(request)
        kafka.log(T0).append(b"new")
        return reply

    kafka.nodes[1].answer(ListOffsetsRequest, then_append)
    young = str(FIRST_MS + 3)
    start = query(kafka, startingTimestamp=young, **LATEST).initial_offsets()

    assert 3 == at(start)[T0]


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - *",
)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (at_ms(0), "option startingOffsetsByTimestamp lacks t-1"),
        (at_ms(0, 0, 0), "t-2 of option startingOffsetsByTimestamp are not subscribed"),
    ],
)
def test_times_for_other_partitions(kafka: LittleKafka, text: str, problem: str) -> None:
    """Times per partition must include every subscribed partition and no other."""
    with pytest.raises(OptionError) as caught:
        query(kafka, startingOffsetsByTimestamp=text).initial_offsets()

    assert caught.value.message == (
        "Partitions specified for Kafka timestamp based start offsets don't match what are "
        f'assigned: {problem}. Name each partition, or add "*" for the rest. Use -1 for latest, -2 '
        "for earliest"
    )


def test_many_missing_partitions(kafka: LittleKafka) -> None:
    """The error names ten partitions at most."""
    kafka.create("t", 30)
    with pytest.raises(OptionError, match="t-9 and 20 more") as caught:
        query(kafka, startingOffsets="{}").initial_offsets()

    assert "t-10" not in caught.value.message


def test_a_relative_time_is_bound_once(kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-2h`` counts from the query's first start. Later calls, and a restart, don't move it."""
    now_ms = FIRST_MS + 7_200_001

    class Clock:
        def time_ns(self) -> int:
            return now_ms * 1_000_000

    monkeypatch.setattr(initial_positions, "time", Clock())
    options = {"startingTimestamp": "-2h", **LATEST}
    driver = query(kafka, **options)
    first = driver.initial_offsets()
    end = driver.next_end(first, None)
    assert end is not None
    now_ms += 3_600_000

    assert {T0: 1, T1: 1} == at(first) == at(driver.initial_offsets())
    assert {T0: (1, 3)} == read(driver, first, end)
    # After a crash in batch 0 Spark asks again. The logged end has the first start.
    restarted = query(kafka, **options)
    assert {T0: (1, 3)} == read(restarted, restarted.initial_offsets(), logged(end))


def test_a_new_partition_starts_at_its_beginning(kafka: LittleKafka) -> None:
    """A partition that comes later is read from its start, whatever the option says."""
    driver = query(kafka, startingTimestamp=str(FIRST_MS + 2), **LATEST, **ALWAYS)
    start = driver.initial_offsets()
    first = driver.next_end(start, None)
    kafka.topics["t"].logs.append(type(kafka.log(T0))(leader=1))
    kafka.log(EMPTY).append(b"old", b"new")
    assert first is not None
    end = driver.next_end(logged(first), None)
    assert end is not None

    assert {EMPTY: (0, 2)} == read(driver, logged(first), end)


def test_an_available_now_query(kafka: LittleKafka) -> None:
    """An AvailableNow query reads from the time to the log ends."""
    driver = query(kafka, startingOffsetsByTimestamp=at_ms(1, 0))
    driver.prepare_available_now()
    start = driver.initial_offsets()
    end = driver.next_end(start, 1)
    assert end is not None
    last = driver.next_end(logged(end), None)
    assert last is not None

    assert {T0: (1, 2), T1: (0, 1)} == read(driver, start, end)
    assert {T0: (2, 3)} == read(driver, logged(end), last)
    assert driver.next_end(logged(last), None) is None


def test_a_read_committed_query(kafka: LittleKafka) -> None:
    """A record of an open transaction matches no time: the log ends at the last stable offset."""
    kafka.log(T0).stable = 1
    committed = {"kafka__isolation__level": "read_committed", **LATEST}
    driver = query(kafka, startingTimestamp=str(FIRST_MS + 1), **committed)

    assert {T0: 1, T1: 1} == at(driver.initial_offsets())
    assert all(r.isolation_level == 1 for r in kafka.asked(ListOffsetsRequest))


def lookup_of(kafka: LittleKafka) -> OffsetLookup:
    """Returns the look-ups of a batch read of t and u."""
    servers = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t,u"}
    options = parse(servers, batch=True)
    return OffsetLookup(replace(options, lookups=replace(options.lookups, retries=0)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {T0: 3, T1: 1, U0: 0}),
        ({"endingOffsets": '{"t":{"0":2,"*":"latest"},"u":"latest"}'}, {T0: 2, T1: 1, U0: 0}),
        ({"endingTimestamp": str(FIRST_MS + 1)}, {T0: 1, T1: 1, U0: 0}),
        ({"endingOffsetsByTimestamp": f'{{"t":{FIRST_MS + 2},"*":0}}'}, {T0: 2, T1: 1, U0: 0}),
    ],
)
def test_ends_of_batch_reads(
    kafka: LittleKafka, options: dict[str, str], expected: dict[TopicPartition, int]
) -> None:
    """A batch read ends before the first record of a time or later; without one at the log end."""
    kafka.create("u")
    ending = parse(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t,u", **options}, batch=True
    ).ending
    assert ending is not None
    lookup = lookup_of(kafka)
    positions = bound_positions(ending, lookup, lookup.cluster_view())
    lookup.close()

    assert expected == {tp: position.offset for tp, position in positions.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    places=st.fixed_dictionaries(
        {}, optional={"0": st.integers(-2, 3), "1": st.integers(-2, 1), "*": st.integers(-2, -1)}
    ),
    rest=st.none() | st.integers(-2, -1),
)
def test_partial_json(kafka: LittleKafka, places: dict[str, int], rest: int | None) -> None:
    """Each partition has its number's place, else ``"*"`` of its topic, else ``"*"`` of all. If
    neither names it, the query does not start."""
    everywhere = "" if rest is None else f',"*":{rest}'
    inner = ",".join(f'"{key}":{place}' for key, place in places.items())
    options = parse(
        {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "subscribe": "t",
            "startingOffsets": f'{{"t":{{{inner}}}{everywhere}}}',
        }
    )
    lookup = OffsetLookup(options)
    ends = {T0: 3, T1: 1}
    expected = {tp: places.get(str(tp.partition), places.get("*", rest)) for tp in ends}
    try:
        if None in expected.values():
            with pytest.raises(OptionError, match="lacks t-"):
                bound_positions(options.starting, lookup, lookup.cluster_view())
            return
        positions = bound_positions(options.starting, lookup, lookup.cluster_view())
        assert positions == {
            tp: ({-1: ends[tp], -2: 0}.get(place or 0, place), 0) for tp, place in expected.items()
        }
    finally:
        lookup.close()


def test_a_start_costs_few_requests(kafka: LittleKafka) -> None:
    """A start at a time asks each leader once for the times."""
    driver: Driver = query(kafka, startingTimestamp="0")
    driver.initial_offsets()

    assert 2 == len(kafka.asked(ListOffsetsRequest))
