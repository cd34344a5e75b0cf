"""Refused options: the sentence for every mistake, and no other error for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.catalogue import OPTIONS, lookup
from kfetch.options.option import Treatment
from kfetch.spark.options import parse
from tests.examples import examples
from tests.kfetch.options.test_parsing import BUILT, REQUIRED

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
        "subscribePattern; `kfetch options` lists all options",
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
    ({"topics": "t"}, "option topics is not known: did you mean subscribe?"),
    (
        {"kafka.ssl.ca.location": "ca.pem"},
        "option kafka.ssl.ca.location is not known: did you mean kafka.ssl.truststore.location?",
    ),
    (
        {"kafka.ssl.key.location": "key.pem"},
        "option kafka.ssl.key.location is not known: did you mean kafka.ssl.keystore.location?",
    ),
    ({"Topcs": "t"}, "option Topcs is not known: `kfetch options` lists all options"),
    ({"subscribe": ""}, "no topics to subscribe: option subscribe is empty"),
    ({"subscribe": " ,, "}, "no topics to subscribe: option subscribe is empty"),
    (
        {"subscribe": None, "subscribePattern": " "},
        "pattern to subscribe is empty: option subscribePattern",
    ),
    (
        {"subscribe": None, "subscribePattern": "("},
        "option subscribePattern is '(', which is no regular expression of Python's re: missing ), "
        "unterminated subpattern at position 0",
    ),
    (
        {"subscribe": None, "subscribePattern": "a{99999999999999}"},
        "option subscribePattern is 'a{99999999999999}', which is no regular expression of "
        "Python's re: the repetition number is too large",
    ),
    *(
        (
            {"subscribe": None, "subscribePattern": pattern},
            f"option subscribePattern is {pattern!r}, but kfetch reads it with Python's re, which "
            f"has no sets of sets: no [ and no && inside brackets{advice}",
        )
        for pattern, advice in ((r"[^]\]&&a]", ""), (r"\[[\[&&a]", r": write \[(?:(?=[a])[\[])"))
    ),
    (
        {"subscribe": None, "assign": ""},
        "no topicpartitions to assign: option assign is '': expected e.g. "
        '{"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"subscribe": None, "assign": "[1]"},
        "no topicpartitions to assign: option assign is '[1]': expected e.g. "
        '{"topicA":[0,1],"topicB":[2]}',
    ),
    (
        {"subscribe": None, "assign": "{1}"},
        'option assign: Expected e.g. {"topicA":[0,1],"topicB":[2]}, got {1}',
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
        f"{SO}, earliest, latest or group, got newest",
    ),
    ({"startingOffsets": "[]"}, f"{SO}, earliest, latest or group, got []"),
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
    ({"includeHeaders": ""}, "option includeHeaders is '', but it must be true, false or map"),
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
        "option minPartitions is '0', but it must be a whole number from 1 to 2147483647: "
        "minPartitions must be positive",
    ),
    (
        {"minPartitions": str(2**31)},
        "option minPartitions is '2147483648', but it must be a whole number from 1 to 2147483647: "
        "minPartitions must be positive",
    ),
    (
        {"maxRecordsPerPartition": "-1"},
        "option maxRecordsPerPartition is '-1', but it must be a whole number above 0: "
        "maxRecordsPerPartition must be positive",
    ),
    (
        {"fetchOffset.numRetries": "-1"},
        "option fetchOffset.numRetries is '-1', but it must be a whole number from 0 to 2147483647",
    ),
    (
        {"kafka.fetch.max.wait.ms": "2147483648"},
        "option kafka.fetch.max.wait.ms is '2147483648', but it must be a number of milliseconds "
        "from 0 to 2147483647",
    ),
    (
        {"kafkaConsumer.pollTimeoutMs": "2s"},
        "option kafkaConsumer.pollTimeoutMs is '2s', but it must be a number of milliseconds "
        "from 0 to 9223372036854775807",
    ),
    (
        {"kafka.fetch.max.bytes": "50MB"},
        "option kafka.fetch.max.bytes is '50MB', but it must be a number of bytes from "
        "0 to 2147483647",
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
    ({"zzz": "1"}, "option zzz is not known: `kfetch options` lists all options"),
]


def with_changes(changes: dict[str, str | None]) -> dict[str, str]:
    """The required options, with some set and some (None) removed."""
    return {name: text for name, text in {**REQUIRED, **changes}.items() if text is not None}


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "bad source options",
    "unsupported kafka configs",
)
@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "isolationLevel must throw exception when invalid isolation level set",
)
@pytest.mark.parametrize(("changes", "message"), MISTAKES, ids=[row[1][:70] for row in MISTAKES])
def test_mistakes(changes: dict[str, str | None], message: str) -> None:
    """Every mistake has one sentence that names the option, in the connector's words."""
    with pytest.raises(OptionError) as caught:
        parse(with_changes(changes))

    assert message == caught.value.message
    assert not isinstance(caught.value, NotBuilt)


@pytest.mark.parametrize(
    "name",
    [o.name.replace("*", "x") for o in OPTIONS if o.treatment is Treatment.PLANNED],
)
def test_planned_options(name: str) -> None:
    """An option that the connector has and kfetch not yet is an error of its own class."""
    with pytest.raises(NotBuilt) as caught:
        parse({**REQUIRED, name: "1"})

    row = lookup(name)
    assert row is not None
    expected = {
        # Removing it would not open the listener that asks for it.
        True: f"option {name} is not built yet: {row.meaning}",
        False: f"option {name} ({row.meaning}) is not built yet: remove it",
    }
    assert expected[row.name.endswith("*")] == caught.value.message


def refusal(options: dict[str, str]) -> str | None:
    """Returns the error sentence of options, None if they are valid."""
    try:
        parse(options)
    except OptionError as error:
        return str(error)
    return None


_texts = st.text(max_size=20) | st.sampled_from(
    ["earliest", "true", "1", "-1", "{}", '{"t":{"0":1}}', '{"t":[0]}', "h:1", "a,b", "[["]
)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@given(st.dictionaries(st.sampled_from([o.name for o in BUILT]), _texts, max_size=4))
def test_any_text_is_read_or_refused(options: dict[str, str]) -> None:
    """No text of any option raises anything but OptionError."""
    assert refusal({**REQUIRED, **options}) != ""


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [o.name for o in BUILT])
@examples(3)
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
    rest = {k: v for k, v in REQUIRED.items() if name != "subscribePattern" or k != "subscribe"}
    with pytest.raises(OptionError):
        parse({**rest, name: text})


@pytest.mark.parametrize("name", ["kafka.sasl.password", "kafka.client.id", "subscribe"])
def test_text_that_cannot_be_sent(name: str) -> None:
    """Half a surrogate pair is refused, and the rest of the text, which may be secret, not shown.

    Python's own error would show all of it, and an agent reports the errors that it did not expect.
    """
    with pytest.raises(OptionError, match=f"option {name} has half of a surrogate pair") as raised:
        parse({**REQUIRED, name: "hush\udc80"})

    assert "hush" not in repr(raised.value) + str(raised.value.where)
