"""Where a query starts, and where a batch read ends: each text and its meaning."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.model import TopicPartition
from kfetch.options import EARLIEST, LATEST, Ago, Bound, Place
from kfetch.options.catalogue import no_effect
from kfetch.spark.options import parse
from tests.kfetch.options.test_parsing import REQUIRED

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
HOUR_MS = 3_600_000

STARTS: list[tuple[dict[str, str], Bound]] = [
    ({}, Bound(rest=LATEST)),
    ({"startingOffsets": '{"t":"earliest"}'}, Bound(topics={"t": EARLIEST})),
    ({"startingOffsets": '{"t":"Latest","u":-2}'}, Bound(topics={"t": LATEST, "u": EARLIEST})),
    ({"startingOffsets": '{"t":{"0":"latest"}}'}, Bound(partitions={T0: LATEST})),
    (
        {"startingOffsets": '{"t":{"0":5,"*":"earliest"},"*":"latest"}'},
        Bound(partitions={T0: 5}, topics={"t": EARLIEST}, rest=LATEST),
    ),
    ({"startingOffsets": "group", "kafka.group.id": "g"}, Bound(group="g")),
    ({"startingOffsets": "Group", "kfetch.startingGroup": " g "}, Bound(group="g")),
    (
        {"startingOffsets": "group", "kfetch.startingGroup": "a", "kafka.group.id": "b"},
        Bound(group="a"),
    ),
    (
        {"startingTimestamp": "1600000000000"},
        Bound(option="startingTimestamp", rest=1_600_000_000_000, by_time=True),
    ),
    ({"startingTimestamp": "+7"}, Bound(option="startingTimestamp", rest=7, by_time=True)),
    ({"startingTimestamp": "-1"}, Bound(option="startingTimestamp", rest=LATEST, by_time=True)),
    ({"startingTimestamp": "-2"}, Bound(option="startingTimestamp", rest=EARLIEST, by_time=True)),
    (
        {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"},
        Bound(option="startingTimestamp", rest=5, by_time=True, no_match=LATEST),
    ),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0":5,"1":-1},"u":"-1h","*":9}'},
        Bound(
            option="startingOffsetsByTimestamp",
            partitions={T0: 5, T1: LATEST},
            topics={"u": Ago(HOUR_MS)},
            rest=9,
            by_time=True,
        ),
    ),
]

AGO = [
    ("-500ms", 500),
    ("-90s", 90_000),
    ("-2h", 2 * HOUR_MS),
    ("-30m", HOUR_MS // 2),
    ("-30 min", HOUR_MS // 2),
    ("-1d", 24 * HOUR_MS),
    ("-0s", 0),
]


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "get offsets from case insensitive parameters",
)
@pytest.mark.parametrize(("options", "expected"), STARTS)
@pytest.mark.parametrize("batch", [False, True])
def test_starts(options: dict[str, str], expected: Bound, batch: bool) -> None:
    """Each text has its meaning, in streams and, where it is allowed there, in batch reads."""
    if batch and not expected.by_time and LATEST in {*places(expected)}:
        return  # refused: see test_mistakes_of_bounds
    assert expected == parse({**REQUIRED, **options}, batch=batch).starting


def places(bound: Bound) -> list[Place | None]:
    """Returns all places that a bound names."""
    return [bound.rest, *bound.topics.values(), *bound.partitions.values()]


@pytest.mark.parametrize(("text", "ms"), AGO)
@pytest.mark.parametrize("option", ["startingTimestamp", "endingTimestamp"])
def test_relative_times(option: str, text: str, ms: int) -> None:
    """A minus, a number and a unit is a time before the start."""
    options = parse({**REQUIRED, option: text}, batch=True)
    bound = options.starting if option == "startingTimestamp" else options.ending
    assert bound is not None

    assert Ago(ms) == bound.rest


ENDS: list[tuple[dict[str, str], Bound]] = [
    ({}, Bound(option="endingOffsets", rest=LATEST)),
    ({"endingOffsets": "LATEST"}, Bound(option="endingOffsets", rest=LATEST)),
    (
        {"endingOffsets": '{"t":{"0":5,"1":-1},"*":"latest"}'},
        Bound(option="endingOffsets", partitions={T0: 5, T1: LATEST}, rest=LATEST),
    ),
    (
        {"endingTimestamp": "5", "endingOffsets": "latest"},
        Bound(option="endingTimestamp", rest=5, by_time=True, no_match=LATEST),
    ),
    (
        {"endingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":9}}'},
        Bound(option="endingOffsetsByTimestamp", partitions={T0: 5}, by_time=True, no_match=LATEST),
    ),
]


@pytest.mark.connector_case("KafkaSourceSuiteBase", "get offsets from case insensitive parameters")
@pytest.mark.parametrize(("options", "expected"), ENDS)
def test_ends(options: dict[str, str], expected: Bound) -> None:
    """A batch read ends at the log ends by default. An end without a record is the log end."""
    assert expected == parse({**REQUIRED, **options}, batch=True).ending


@pytest.mark.connector_case(
    "KafkaSourceProviderSuite",
    "batch mode - options should be handled as case-insensitive",
)
@pytest.mark.parametrize("cased", [str.upper, str.lower, str.swapcase])
def test_names_in_any_case(cased: Callable[[str], str]) -> None:
    """The options of a batch read have names in any case, as in the connector."""
    given_ = {"startingOffsets": '{"T":{"0":5}}', "kafkaConsumer.pollTimeoutMs": "1500"}
    options = parse({**REQUIRED, **{cased(k): text for k, text in given_.items()}}, batch=True)

    assert {TopicPartition("T", 0): 5} == options.starting.partitions
    assert 1.5 == options.poll_timeout_s


def test_defaults_of_streams_and_batches() -> None:
    """A stream starts at latest and has no end. A batch read starts at earliest."""
    assert parse(REQUIRED).ending is None
    assert Bound(rest=EARLIEST) == parse(REQUIRED, batch=True).starting


BY_PREFERENCE = [
    ("startingTimestamp", "5"),
    ("startingOffsetsByTimestamp", '{"t":{"0":6}}'),
    ("startingOffsets", '{"t":{"0":7}}'),
]


@given(st.sets(st.sampled_from(BY_PREFERENCE), min_size=1), st.booleans(), st.booleans())
def test_preferences(chosen: set[tuple[str, str]], starting: bool, batch: bool) -> None:
    """A time for all beats times per partition, and these beat offsets, as in the connector."""
    first = next(name for name, text in BY_PREFERENCE if (name, text) in chosen)
    renamed = {
        name if starting else name.replace("starting", "ending"): text for name, text in chosen
    }
    options = parse({**REQUIRED, **renamed}, batch=batch or not starting)
    bound = options.starting if starting else options.ending
    assert bound is not None

    assert bound.option.removeprefix("starting").removeprefix("ending") in first


@pytest.mark.parametrize(
    ("tp", "expected"), [(T0, 5), (T1, EARLIEST), (U0, LATEST), (TopicPartition("v", 3), LATEST)]
)
def test_places(tp: TopicPartition, expected: int) -> None:
    """A partition has its own place, else that of its topic, else that of the rest."""
    bound = Bound(partitions={T0: 5}, topics={"t": EARLIEST}, rest=LATEST)

    assert expected == bound.place(tp)


def test_a_partition_without_a_place() -> None:
    """Without ``"*"`` a partition that is not named has no place, so nobody forgets one."""
    assert Bound(partitions={T0: 5}).place(T1) is None


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({}, "latest"),
        ({"startingOffsets": "earliest"}, "earliest"),
        ({"startingOffsets": '{"*":"earliest"}'}, "earliest"),
        ({"startingOffsets": '{"t":"earliest"}'}, "given offsets"),
        ({"startingTimestamp": "-2h"}, "given times"),
        ({"startingOffsets": "group", "kafka.group.id": "g"}, "offsets of group g"),
    ],
)
def test_summaries(options: dict[str, str], summary: str) -> None:
    """A bound describes itself in a few words."""
    assert summary == parse({**REQUIRED, **options}).starting.summary


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_relative_times_become_fixed(now_ms: int, ago_ms: int) -> None:
    """A relative time counts from the given clock, never before 1970. Other places stay."""
    bound = Bound(partitions={T0: Ago(ago_ms), T1: 7}, topics={"u": LATEST}, rest=Ago(0))
    fixed = bound.at_time(now_ms)

    assert {T0: max(0, now_ms - ago_ms), T1: 7} == fixed.partitions
    assert ({"u": LATEST}, now_ms) == (fixed.topics, fixed.rest)
    assert fixed == fixed.at_time(now_ms + 1)


@pytest.mark.connector_case(
    "JsonUtilsSuite",
    "parsing partitionOffsets",
)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda name: name != "*"),
        st.dictionaries(st.integers(0, 2**31 - 1), st.integers(-2, 2**63 - 1), max_size=4),
        max_size=4,
    )
)
def test_json_of_the_connector(offsets: dict[str, dict[int, int]]) -> None:
    """Any JSON that the connector writes has the same meaning here."""
    text = json.dumps({t: {str(p): at for p, at in of.items()} for t, of in offsets.items()})
    expected = {TopicPartition(t, p): at for t, of in offsets.items() for p, at in of.items()}
    bound = parse({**REQUIRED, "startingOffsets": text}).starting

    assert Bound(partitions=expected) == bound
    assert bound == pickle.loads(pickle.dumps(bound))


@pytest.mark.parametrize("batch", [False, True])
def test_trigger_options_of_batch_reads(batch: bool) -> None:
    """A batch read ignores the options of streams, with a warning in the connector's words."""
    names = (
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "kfetch.commitGroup",
        "kfetch.planPermission",
    )
    options = parse({**REQUIRED, **dict.fromkeys(names, "5")}, batch=batch)

    assert (names if batch else ()) == options.ignored
    assert no_effect(names[0]) == "maxOffsetsPerTrigger option ignored in batch queries"


def test_the_group_of_the_start_is_used() -> None:
    """``kafka.group.id`` has an effect if the query starts at the group's offsets."""
    options = {**REQUIRED, "kafka.group.id": "g"}

    assert ("kafka.group.id",) == parse(options).ignored
    assert () == parse({**options, "startingOffsets": "group"}).ignored


@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        (None, ("kafka.sasl.username", "kafka.ssl.truststore.location")),
        ("SSL", ("kafka.sasl.username",)),
    ],
)
def test_security_options_need_their_protocol(protocol: str | None, names: tuple[str, ...]) -> None:
    """A user or a truststore that ``kafka.security.protocol`` does not use is told."""
    options = {
        **REQUIRED,
        "kafka.sasl.username": "a",
        "kafka.ssl.truststore.location": "ca.pem",
        **({"kafka.security.protocol": protocol} if protocol else {}),
    }
    assert names == parse(options).ignored
    assert no_effect("kafka.sasl.username") == (
        "option kafka.sasl.username has no effect without SASL: set kafka.security.protocol to "
        "SASL_SSL or SASL_PLAINTEXT"
    )
    assert no_effect("kafka.ssl.truststore.location") == (
        "option kafka.ssl.truststore.location has no effect without TLS: set "
        "kafka.security.protocol to SSL or SASL_SSL"
    )


@pytest.mark.parametrize(
    ("bound", "offset", "expected"),
    [
        (Bound(rest=EARLIEST), 0, True),
        (Bound(rest=EARLIEST), 5, False),
        (Bound(rest=LATEST), 0, False),
        (Bound(topics={"t": 5}), 5, True),
        (Bound(topics={"t": 5}), 0, False),
        (Bound(topics={"t": 5, "u": LATEST}), 5, True),
        (Bound(topics={"t": 5, "u": LATEST}), None, False),
        (Bound(topics={"t": LATEST, "u": 5}), 5, False),
        (Bound(topics={"t": 5}, rest=Ago(5), by_time=True), 0, True),
        (Bound(partitions={TopicPartition("t", 0): LATEST}, rest=5, by_time=True), 0, False),
        (Bound(partitions={TopicPartition("t", 0): Ago(5)}, by_time=True), 0, False),
        (Bound(rest=5, by_time=True), 0, True),
        (Bound(rest=5, by_time=True), 5, False),
        (Bound(rest=5, by_time=True, no_match=LATEST), 0, True),
        (Bound(rest=5, by_time=True, no_match=LATEST), 5, False),
        (Bound(group="g"), 0, False),
        (Bound(group="g"), None, False),
        (Bound(topics={"t": 5}), None, True),
        (Bound(topics={"t": 5}, rest=EARLIEST), None, False),
        (Bound(rest=EARLIEST), None, False),
        (Bound(rest=LATEST), None, False),
        (Bound(rest=5, by_time=True), None, False),
    ],
)
def test_some_bounds_move(bound: Bound, offset: int | None, expected: bool) -> None:
    """The log end, a relative time and a group may give other offsets later. So may the log start
    and a fixed time, unless they give offset 0. If nobody knows what they gave (None), they may.
    The places of other partitions do not matter."""
    offsets = None if offset is None else {TopicPartition("t", 0): offset}
    assert expected == bound.always_gives(offsets)
