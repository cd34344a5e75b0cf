"""Options: every name, its default and meaning, and the sentence for every mistake."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_source.catalogue import OPTIONS, Treatment, lookup, markdown_table
from spark_source.errors import NotBuilt, OptionError
from spark_source.model import TopicPartition
from spark_source.options import SourceOptions, StartingOffsets, Subscription, parse

LEAST = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
README = Path(__file__).parents[1] / "README.md"
BUILT = [option for option in OPTIONS if option.treatment is Treatment.BUILT]


def found(options: SourceOptions, path: str) -> Any:
    """An attribute by its dotted path."""
    value: Any = options
    for name in path.split("."):
        value = getattr(value, name)
    return value


# Option, attribute, default, then pairs of text and meaning.
VALUES: list[tuple[str, str, Any, list[tuple[str, Any]]]] = [
    (
        "kafka.bootstrap.servers",
        "bootstrap",
        (("h", 9092),),
        [
            ("a:1", (("a", 1),)),
            (" a:1 , b:65535,", (("a", 1), ("b", 65535))),
            ("PLAINTEXT://a:1", (("a", 1),)),
            ("[::1]:9092", (("::1", 9092),)),
        ],
    ),
    (
        "subscribe",
        "subscription",
        Subscription(topics=("t",)),
        [
            ("a, b,,a ", Subscription(topics=("a", "b"))),
            ("A.b-c_d", Subscription(topics=("A.b-c_d",))),
        ],
    ),
    (
        "startingOffsets",
        "starting",
        StartingOffsets(default=-1),
        [
            ("earliest", StartingOffsets(default=-2)),
            ("LATEST", StartingOffsets(default=-1)),
            (" Earliest ", StartingOffsets(default=-2)),
            (
                '{"t":{"0":23,"1":-1,"2":-2}}',
                StartingOffsets(
                    specific={
                        TopicPartition("t", 0): 23,
                        TopicPartition("t", 1): -1,
                        TopicPartition("t", 2): -2,
                    }
                ),
            ),
            ("{}", StartingOffsets(specific={})),
        ],
    ),
    ("failOnDataLoss", "fail_on_data_loss", True, [("false", False), (" TRUE ", True)]),
    (
        "maxOffsetsPerTrigger",
        "max_offsets_per_trigger",
        None,
        [("1", 1), (str(2**63 - 1), 2**63 - 1)],
    ),
    ("minOffsetsPerTrigger", "min_offsets_per_trigger", None, [("1", 1), ("1000000", 10**6)]),
    (
        "maxTriggerDelay",
        "max_trigger_delay_s",
        900.0,
        [
            ("15m", 900.0),
            ("5S", 5.0),
            ("250 ms", 0.25),
            ("1500", 1.5),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("1d", 86400.0),
            ("7us", 7e-6),
        ],
    ),
    ("minPartitions", "min_partitions", None, [("1", 1), (str(2**31 - 1), 2**31 - 1)]),
    ("maxRecordsPerPartition", "max_records_per_partition", None, [("1", 1), (str(2**40), 2**40)]),
    ("includeHeaders", "include_headers", False, [("true", True), ("False", False)]),
    ("includeLeaderEpoch", "include_leader_epoch", False, [("true", True)]),
    ("includeSerializedSizes", "include_serialized_sizes", False, [("true", True)]),
    ("kfetch.onCorruptBatch", "skip_corrupt_batches", False, [("Skip", True), ("fail", False)]),
    ("fetchOffset.numRetries", "lookup_retries", 3, [("0", 0), ("60", 60)]),
    ("fetchOffset.retryIntervalMs", "lookup_retry_s", 1.0, [("10", 0.01)]),
    ("kafkaConsumer.pollTimeoutMs", "poll_timeout_s", 120.0, [("512", 0.512)]),
    ("kfetch.agent", "agent", "process", [("process", "process"), ("INLINE", "inline")]),
    (
        "kfetch.agent.memory",
        "agent_memory_bytes",
        256 << 20,
        [("1m", 1 << 20), ("2G", 2 << 30), ("64 MiB", 64 << 20), ("1048576", 1 << 20)],
    ),
    ("kfetch.agent.lease", "agent_lease_s", 120.0, [("5", 5.0), ("2m", 120.0), ("500ms", 0.5)]),
    ("kfetch.rowsPerSplit", "rows_per_split", 100_000, [("0", 0), ("7", 7)]),
    ("kfetch.statsDirectory", "stats_directory", "", [("somewhere", "somewhere")]),
    ("kafka.client.id", "network.client_id", "kfetch", [("etl", "etl")]),
    ("kafka.fetch.max.bytes", "fetch.max_bytes", 52_428_800, [("1", 1)]),
    ("kafka.max.partition.fetch.bytes", "fetch.partition_max_bytes", 4_194_304, [("1", 1)]),
    ("kafka.fetch.min.bytes", "fetch.min_bytes", 1, [("0", 0), ("100", 100)]),
    ("kafka.fetch.max.wait.ms", "fetch.max_wait_ms", 500, [("0", 0), ("50", 50)]),
    ("kafka.check.crcs", "fetch.check_crcs", True, [("false", False)]),
    ("kafka.request.timeout.ms", "network.request_timeout_s", 30.0, [("1500", 1.5)]),
    ("kafka.retry.backoff.ms", "network.retry_backoff_s", 0.1, [("20", 0.02)]),
    ("kafka.retry.backoff.max.ms", "network.retry_backoff_max_s", 1.0, [("2000", 2.0)]),
    ("kafka.metadata.max.age.ms", "network.metadata_max_age_s", 30.0, [("5000", 5.0), ("0", 0.0)]),
    ("kafka.receive.buffer.bytes", "network.receive_buffer_bytes", -1, [("-1", -1), ("64", 64)]),
    (
        "kafka.socket.connection.setup.timeout.ms",
        "network.connect_timeout_s",
        10.0,
        [("300", 0.3)],
    ),
    ("kafka.security.protocol", "ignored", (), [("PLAINTEXT", ()), ("plaintext", ())]),
    (
        "kafka.isolation.level",
        "fetch.read_committed",
        False,
        [("read_uncommitted", False), ("READ_COMMITTED", True)],
    ),
]
MEANINGS = [(name, path, text, value) for name, path, _, pairs in VALUES for text, value in pairs]


@pytest.mark.parametrize(("name", "path", "default"), [row[:3] for row in VALUES])
def test_defaults(name: str, path: str, default: Any) -> None:
    """An option that is not given has the default of Spark's connector, or its own."""
    assert default == found(parse(LEAST), path)


@pytest.mark.parametrize(("name", "path", "text", "value"), MEANINGS)
@pytest.mark.parametrize("cased", [str, str.upper, str.lower, str.swapcase])
def test_meanings(name: str, path: str, text: str, value: Any, cased: Any) -> None:
    """Each text has its meaning, whatever the case of the option's name."""
    rest = {other: given for other, given in LEAST.items() if other != name}

    assert value == found(parse({**rest, cased(name): text}), path)


def test_every_built_option_is_tried() -> None:
    """No option of the catalogue escapes the table above."""
    assert {option.name for option in BUILT} == {row[0] for row in VALUES} | {
        "assign",
        "subscribePattern",
    }


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[0])
def test_catalogue_tells_the_default(row: tuple[str, str, Any, Any]) -> None:
    """The default in the README's table is the one that the code has."""
    name, path, default, _ = row
    told = lookup(name)
    assert told is not None
    if told.default in ("required", "none", "inline", "PLAINTEXT", "read_uncommitted"):
        return
    options = parse(LEAST if name in LEAST else {**LEAST, name: told.default})

    assert default == found(options, path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribePattern": "t.*"}, Subscription(pattern="t.*")),
        (
            {"assign": '{"b":[1,0,1],"a":[2]}'},
            Subscription(
                assigned=(
                    TopicPartition("a", 2),
                    TopicPartition("b", 0),
                    TopicPartition("b", 1),
                )
            ),
        ),
    ],
)
def test_other_strategies(options: dict[str, str], expected: Subscription) -> None:
    """A pattern is kept as it is; an assignment is sorted and has nothing twice."""
    given_ = {"kafka.bootstrap.servers": "h:1", **options}

    assert expected == parse(given_).subscription


@pytest.mark.parametrize(
    ("subscription", "topic", "wanted"),
    [
        (Subscription(topics=("a", "b")), "b", True),
        (Subscription(topics=("a",)), "ab", False),
        (Subscription(pattern="b"), "abc", True),
        (Subscription(pattern="^b"), "abc", False),
        (Subscription(assigned=(TopicPartition("a", 0),)), "a", True),
        (Subscription(assigned=(TopicPartition("a", 0),)), "b", False),
    ],
)
def test_wants(subscription: Subscription, topic: str, wanted: bool) -> None:
    """A pattern is searched in a name, as the connector does; names must be the same."""
    assert wanted is subscription.wants(topic)


SO = 'option startingOffsets: Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
MISTAKES: list[tuple[dict[str, str | None], str]] = [
    (
        {"kafka.bootstrap.servers": None},
        "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
    ),
    (
        {"kafka.bootstrap.servers": " , "},
        "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer",
    ),
    (
        {"kafka.bootstrap.servers": "h"},
        "option kafka.bootstrap.servers has 'h', but each entry must be host:port",
    ),
    (
        {"kafka.bootstrap.servers": "h:0"},
        "option kafka.bootstrap.servers has 'h:0', but each entry must be host:port",
    ),
    (
        {"kafka.bootstrap.servers": "h:1,h:65536"},
        "option kafka.bootstrap.servers has 'h:65536', but each entry must be host:port",
    ),
    (
        {"kafka.bootstrap.servers": "h:" + "9" * 9},
        "option kafka.bootstrap.servers has 'h:999999999', but each entry must be host:port",
    ),
    (
        {"subscribe": None},
        "one of the following options must be specified for Kafka source: assign, subscribe, "
        "subscribePattern; see the option table in the README",
    ),
    (
        {"assign": '{"t":[0]}'},
        "only one of the following options can be specified for Kafka source: assign, subscribe, "
        "subscribePattern; here are assign and subscribe",
    ),
    (
        {"subscribePattern": "t"},
        "only one of the following options can be specified for Kafka source: assign, subscribe, "
        "subscribePattern; here are subscribe and subscribePattern",
    ),
    ({"subscribe": ""}, "no topics to subscribe: option subscribe is empty"),
    ({"subscribe": " ,, "}, "no topics to subscribe: option subscribe is empty"),
    (
        {"subscribe": None, "subscribePattern": " "},
        "pattern to subscribe is empty: option subscribePattern",
    ),
    (
        {"subscribe": None, "subscribePattern": "("},
        "option subscribePattern is '(', which is no regular expression: missing ), unterminated "
        "subpattern at position 0",
    ),
    (
        {"subscribe": None, "subscribePattern": "a{99999999999999}"},
        "option subscribePattern is 'a{99999999999999}', which is no regular expression: the "
        "repetition number is too large",
    ),
    (
        {"subscribe": None, "assign": ""},
        'option assign: Expected e.g. {"topicA":[0,1],"topicB":[2]}, got ',
    ),
    (
        {"subscribe": None, "assign": "[1]"},
        'option assign: Expected e.g. {"topicA":[0,1],"topicB":[2]}, got [1]',
    ),
    (
        {"subscribe": None, "assign": "{}"},
        "no topicpartitions to assign: option assign is empty",
    ),
    (
        {"subscribe": None, "assign": '{"t":[]}'},
        "no topicpartitions to assign: option assign is empty",
    ),
    (
        {"subscribe": None, "assign": '{"t":0}'},
        'option assign has 0 for topic t: expected e.g. {"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"subscribe": None, "assign": '{"t":[-1]}'},
        'option assign has [-1] for topic t: expected e.g. {"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"subscribe": None, "assign": '{"t":[true]}'},
        'option assign has [True] for topic t: expected e.g. {"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"subscribe": None, "assign": '{"t":[2147483648]}'},
        'option assign has [2147483648] for topic t: expected e.g. {"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"startingOffsets": "newest"},
        f"{SO}, earliest or latest, got newest",
    ),
    ({"startingOffsets": "[]"}, f"{SO}, earliest or latest, got []"),
    ({"startingOffsets": '{"t":5}'}, f'{SO}, got {{"t":5}}'),
    ({"startingOffsets": '{"t":{"x":5}}'}, f'{SO}, got {{"t":{{"x":5}}}}'),
    ({"startingOffsets": '{"t":{"0":"5"}}'}, f'{SO}, got {{"t":{{"0":"5"}}}}'),
    ({"startingOffsets": '{"t":{"0":true}}'}, f'{SO}, got {{"t":{{"0":true}}}}'),
    ({"startingOffsets": '{"t":{"0":-3}}'}, f'{SO}, got {{"t":{{"0":-3}}}}'),
    ({"startingOffsets": '{"t":{"-1":5}}'}, f'{SO}, got {{"t":{{"-1":5}}}}'),
    ({"startingOffsets": '{"t":{"²":5}}'}, f'{SO}, got {{"t":{{"²":5}}}}'),
    (
        {"startingOffsets": '{"t":{"0":9223372036854775808}}'},
        f'{SO}, got {{"t":{{"0":9223372036854775808}}}}',
    ),
    (
        {"failOnDataLoss": "yes"},
        "option failOnDataLoss is 'yes', but it must be true or false",
    ),
    ({"includeHeaders": ""}, "option includeHeaders is '', but it must be true or false"),
    (
        {"maxOffsetsPerTrigger": "0"},
        "option maxOffsetsPerTrigger is '0', but it must be a whole number above 0",
    ),
    (
        {"maxOffsetsPerTrigger": "many"},
        "option maxOffsetsPerTrigger is 'many', but it must be a whole number above 0",
    ),
    (
        {"maxOffsetsPerTrigger": "1.5"},
        "option maxOffsetsPerTrigger is '1.5', but it must be a whole number above 0",
    ),
    (
        {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        "The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15): lower "
        "option minOffsetsPerTrigger",
    ),
    (
        {"minOffsetsPerTrigger": "0"},
        "option minOffsetsPerTrigger is '0', but it must be a whole number above 0",
    ),
    (
        {"maxTriggerDelay": "soon"},
        "option maxTriggerDelay is 'soon', but it must be a duration such as 15m, 30s, or a number "
        "of milliseconds",
    ),
    (
        {"maxTriggerDelay": "9" * 16 + "d"},
        f"option maxTriggerDelay is '{'9' * 16}d', but it must be a duration such as 15m, 30s, or "
        "a number of milliseconds",
    ),
    (
        {"minPartitions": "0"},
        "option minPartitions is '0', but it must be a whole number from 1 to 2147483647",
    ),
    (
        {"minPartitions": str(2**31)},
        "option minPartitions is '2147483648', but it must be a whole number from 1 to 2147483647",
    ),
    (
        {"maxRecordsPerPartition": "-1"},
        "option maxRecordsPerPartition is '-1', but it must be a whole number above 0",
    ),
    (
        {"fetchOffset.numRetries": "-1"},
        "option fetchOffset.numRetries is '-1', but it must be a whole number, 0 or more",
    ),
    (
        {"kafkaConsumer.pollTimeoutMs": "2s"},
        "option kafkaConsumer.pollTimeoutMs is '2s', but it must be a number of milliseconds, "
        "0 or more",
    ),
    (
        {"kafka.fetch.max.bytes": "50MB"},
        "option kafka.fetch.max.bytes is '50MB', but it must be a number of bytes, 0 or more",
    ),
    (
        {"kafka.receive.buffer.bytes": "-2"},
        "option kafka.receive.buffer.bytes is '-2', but it must be a number of bytes, or -1",
    ),
    (
        {"kfetch.onCorruptBatch": "ignore"},
        "option kfetch.onCorruptBatch is 'ignore', but it must be fail or skip",
    ),
    (
        {"kafka.isolation.level": "serial"},
        "option kafka.isolation.level is 'serial', but it must be read_uncommitted or "
        "read_committed",
    ),
    (
        {"endingOffsets": "latest"},
        "option endingOffsets is not supported: ending offset not valid in streaming queries",
    ),
    (
        {"endingTimestamp": "1"},
        "option endingTimestamp is not supported: ending timestamp not valid in streaming queries",
    ),
    (
        {"endingOffsetsByTimestamp": "{}"},
        "option endingOffsetsByTimestamp is not supported: ending timestamp not valid in "
        "streaming queries",
    ),
    (
        {"kafka.auto.offset.reset": "none"},
        "option kafka.auto.offset.reset is not supported: use startingOffsets",
    ),
    (
        {"kafka.key.deserializer": "x"},
        "option kafka.key.deserializer is not supported: keys are binary: cast them in the "
        "DataFrame",
    ),
    (
        {"kafka.value.deserializer": "x"},
        "option kafka.value.deserializer is not supported: values are binary: cast them in the "
        "DataFrame",
    ),
    (
        {"kafka.enable.auto.commit": "true"},
        "option kafka.enable.auto.commit is not supported: progress lives in the checkpoint",
    ),
    (
        {"kafka.interceptor.classes": "x"},
        "option kafka.interceptor.classes is not supported: interceptors could change what is read",
    ),
    ({"subscribes": "t"}, "option subscribes is not known: did you mean subscribe?"),
    (
        {"startingOffset": "earliest"},
        "option startingOffset is not known: did you mean startingOffsets?",
    ),
    (
        {"kafka.bootstrap.server": "h:1"},
        "option kafka.bootstrap.server is not known: did you mean kafka.bootstrap.servers?",
    ),
    ({"zzz": "1"}, "option zzz is not known: see the README's option table"),
]


def with_changes(changes: dict[str, str | None]) -> dict[str, str]:
    """The least options, with some set and some (None) taken away."""
    return {name: text for name, text in {**LEAST, **changes}.items() if text is not None}


@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[row[1][:70] for row in MISTAKES])
def test_mistakes(changes: dict[str, str | None], message: str) -> None:
    """Every mistake is told in one sentence that names the option, in the connector's words."""
    with pytest.raises(OptionError) as caught:
        parse(with_changes(changes))

    assert message == str(caught.value)
    assert not isinstance(caught.value, NotBuilt)


@pytest.mark.parametrize(
    "name",
    [o.name.replace("*", "x") for o in OPTIONS if o.treatment is Treatment.PLANNED],
)
def test_planned_options(name: str) -> None:
    """An option that the connector has and kfetch not yet is an error of its own class."""
    with pytest.raises(NotBuilt) as caught:
        parse({**LEAST, name: "1"})

    told = lookup(name)
    assert told is not None
    expected = {
        # Removing it would not open the listener that asks for it.
        True: f"option {name} is not built yet: {told.meaning}",
        False: f"option {name} ({told.meaning}) is not built yet: remove it",
    }
    assert expected[told.name.endswith("*")] == str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "kafka.security.protocol",
            "SASL_SSL",
            "option kafka.security.protocol is SASL_SSL, but kfetch speaks PLAINTEXT only so far: "
            "TLS and SASL are not built yet",
        ),
    ],
)
def test_planned_values(name: str, text: str, message: str) -> None:
    """A value that is planned is refused as such."""
    with pytest.raises(NotBuilt) as caught:
        parse({**LEAST, name: text})

    assert message == str(caught.value)


@pytest.mark.parametrize("name", [o.name for o in OPTIONS if o.treatment is Treatment.IGNORED])
def test_ignored_options(name: str) -> None:
    """An option without effect here is accepted and noted, so that a job can be moved as it is."""
    assert (name,) == parse({**LEAST, name.upper(): "1"}).ignored


def test_options_are_plain_values() -> None:
    """All options are frozen dataclasses: they are pickled to executors."""
    parts = [parse(LEAST)]
    for part in parts:
        assert is_dataclass(part)
        parts += [v for f in fields(part) if is_dataclass(v := getattr(part, f.name))]

    assert {
        "SourceOptions",
        "Subscription",
        "StartingOffsets",
        "NetworkOptions",
        "FetchOptions",
    } == {type(part).__name__ for part in parts}


def refusal(options: dict[str, str]) -> str | None:
    """The sentence with which options are refused, None if they are good."""
    try:
        parse(options)
    except OptionError as told:
        return str(told)
    return None


_texts = st.text(max_size=20) | st.sampled_from(
    ["earliest", "true", "1", "-1", "{}", '{"t":{"0":1}}', '{"t":[0]}', "h:1", "a,b", "[["]
)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@given(st.dictionaries(st.sampled_from([o.name for o in BUILT]), _texts, max_size=4))
def test_any_text_is_read_or_refused(options: dict[str, str]) -> None:
    """No text of any option raises anything but OptionError."""
    assert refusal({**LEAST, **options}) != ""


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [o.name for o in BUILT])
@settings(max_examples=20)
@given(text=_texts)
def test_any_text_of_one_option(name: str, text: str) -> None:
    """The same for every option alone, so that each meets many texts."""
    rest = {} if name in ("assign", "subscribePattern") else {"subscribe": "t"}
    assert refusal({"kafka.bootstrap.servers": "h:1", **rest, name: text}) != ""


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12)))
def test_any_names(options: dict[str, str]) -> None:
    """No set of names raises anything but OptionError."""
    assert refusal(options) != ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("startingOffsets", "[" * 200_000),
        ("startingOffsets", '{"t":{"' + "9" * 5000 + '":1}}'),
        ("startingOffsets", '{"t":{"0":' + "9" * 5000 + "}}"),
        ("kafka.bootstrap.servers", "h:" + "9" * 5000),
        ("maxOffsetsPerTrigger", "9" * 5000),
        ("subscribePattern", "(" * 5000 + ")" * 5000),
    ],
    ids=["deep", "long partition", "long offset", "long port", "long number", "deep pattern"],
)
def test_monstrous_texts(name: str, text: str) -> None:
    """Texts made to break parsers are refused like any other."""
    rest = {k: v for k, v in LEAST.items() if name != "subscribePattern" or k != "subscribe"}
    with pytest.raises(OptionError):
        parse({**rest, name: text})


def test_readme_has_the_option_table() -> None:
    """README's option table is the catalogue's."""
    text = README.read_text()
    begin, end = "<!-- options -->", "<!-- /options -->"
    assert begin in text, f"README.md has no option table: put it between {begin} and {end}"
    table = text.partition(begin)[2].partition(end)[0].strip()

    assert markdown_table() == table, (
        "README's option table is old: run python -m spark_source.catalogue and put what it "
        f"prints between {begin} and {end} in README.md"
    )


def test_table_has_a_row_per_option() -> None:
    """The table names every option once, and no cell breaks it."""
    rows = markdown_table().splitlines()

    assert len(OPTIONS) + 2 == len(rows)
    assert {5} == {row.count("|") for row in rows}
