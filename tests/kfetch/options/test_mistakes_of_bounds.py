"""Refused starts and ends: the sentence for every mistake, in the connector's words."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import NotBuilt, OptionError
from kfetch.spark.options import parse
from tests.kfetch.options.test_mistakes import with_changes

JSON_TIMES = (
    'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, '
    '"1": 123456789}}, got'
)
JSON_OFFSETS = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
ONE_LONG = ": write milliseconds since 1970, or a time before the start such as -2h"

STREAMS: list[tuple[dict[str, str | None], str]] = [
    (
        {"endingOffsets": "latest"},
        "option endingOffsets is not supported: ending offset not valid in streaming queries",
    ),
    (
        {"endingoffsets": "latest", "subscribe": None},
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
        {"subscribe": None, "kafka.bootstrap.servers": None},
        "one of the following options must be specified for Kafka source: assign, subscribe, "
        "subscribePattern; `kfetch options` lists all options",
    ),
    (
        {"minPartitions": "0", "kafka.bootstrap.servers": None},
        "option minPartitions is '0', but it must be a whole number from 1 to 2147483647: "
        "minPartitions must be positive",
    ),
]

BOTH: list[tuple[dict[str, str | None], str]] = [
    *(
        (
            {"startingTimestamp": text},
            f"option startingTimestamp: Expected a single long value, got {text}{ONE_LONG}",
        )
        for text in ("", "soon", "1.5", "-3", "-2w", "2h", "latest", "1e3", "--2h", "-h", "٣")
    ),
    (
        {"startingTimestamp": str(2**63)},
        "option startingTimestamp: Expected a single long value, got 9223372036854775808"
        + ONE_LONG,
    ),
    *(
        (
            {"startingOffsetsByTimestamp": text},
            f"option startingOffsetsByTimestamp: {JSON_TIMES} {text}",
        )
        for text in (
            "",
            "5",
            "earliest",
            "[]",
            '{"t":{"0":"soon"}}',
            '{"t":{"0":-3}}',
            '{"t":{"x":5}}',
            '{"t":{"0":1.5}}',
            '{"t":{"0":null}}',
            '{"t":[5]}',
        )
    ),
    (
        {"startingOffsetsByTimestampStrategy": "earliest"},
        "option startingOffsetsByTimestampStrategy is 'earliest', but it must be error or latest",
    ),
    *(
        ({"startingOffsets": text}, f"option startingOffsets: {JSON_OFFSETS}, got {text}")
        for text in (
            '{"t":"newest"}',
            '{"t":5}',
            '{"*":5}',
            '{"*":{"0":5}}',
            '{"t":{"*":5}}',
            '{"t":{"0":"-2h"}}',
            '{"t":{"0":"group"}}',
            '{"t":"group"}',
            '{"t":null}',
            '{"t":{"0,1":5}}',
            '{"t":{"0":5,"00":6}}',
        )
    ),
    (
        {"startingOffsets": ""},
        f"option startingOffsets: {JSON_OFFSETS}, earliest, latest or group, got ",
    ),
    (
        {"startingOffsets": "-2h"},
        "option startingOffsets is -2h, which is a time and not an offset: set option "
        "startingTimestamp=-2h instead",
    ),
    (
        {"startingOffsets": "group"},
        "option startingOffsets is group, but no consumer group is named: set option "
        "kfetch.startingGroup or kafka.group.id",
    ),
    (
        {"startingOffsets": "group", "kafka.group.id": " "},
        "option startingOffsets is group, but no consumer group is named: set option "
        "kfetch.startingGroup or kafka.group.id",
    ),
    (
        {"startingOffsets": "earliest", "kfetch.startingGroup": "g"},
        "option kfetch.startingGroup has no effect here: set startingOffsets=group, or remove it",
    ),
    (
        {"startingOffsets": "group", "startingTimestamp": "5", "kfetch.startingGroup": "g"},
        "option kfetch.startingGroup has no effect here: set startingOffsets=group, or remove it",
    ),
    (
        {"startingTimestmp": "5"},
        "option startingTimestmp is not known: did you mean startingTimestamp?",
    ),
    (
        {"kafka.bootstrap.servers": "::1:9092"},
        "option kafka.bootstrap.servers has '::1:9092', but an IPv6 address needs brackets: "
        "write [::1]:9092",
    ),
    (
        {"kafka.bootstrap.servers": "a:1,fe80::1:9092"},
        "option kafka.bootstrap.servers has 'fe80::1:9092', but an IPv6 address needs brackets: "
        "write [fe80::1]:9092",
    ),
    *(
        (
            {"kafka.bootstrap.servers": text},
            f"option kafka.bootstrap.servers has {text!r}, but each entry must be host:port",
        )
        for text in ("[::1]", "[::1:9092", "[h]:9092", "a b:1", "h:-1", "h:1:2", "h/x:1", "h:1;")
    ),
    *(
        (
            {"minPartitions": text},
            f"option minPartitions is {text!r}, but it must be a whole number from 1 to "
            "2147483647: minPartitions must be positive",
        )
        for text in ("-1", "1.5", "", "1_000", "many")
    ),
    *(
        (
            {"maxRecordsPerPartition": text},
            f"option maxRecordsPerPartition is {text!r}, but it must be a whole number above 0: "
            "maxRecordsPerPartition must be positive",
        )
        for text in ("0", "-5", str(2**63), "1e3")
    ),
]

NOT_LATEST = ": set startingOffsets to earliest, or to offsets"
NOT_EARLIEST = ": set endingOffsets to latest, or to offsets"
BATCHES: list[tuple[dict[str, str | None], str]] = [
    (
        {"startingOffsets": "latest"},
        "starting offset can't be latest for batch queries on Kafka" + NOT_LATEST,
    ),
    (
        {"startingOffsets": "LATEST", "subscribe": None, "kafka.bootstrap.servers": None},
        "starting offset can't be latest for batch queries on Kafka" + NOT_LATEST,
    ),
    (
        {"startingOffsets": '{"t":{"0":-1}}'},
        "startingOffsets for t-0 can't be latest for batch queries on Kafka" + NOT_LATEST,
    ),
    (
        {"startingOffsets": '{"t":"latest"}'},
        "startingOffsets for t can't be latest for batch queries on Kafka" + NOT_LATEST,
    ),
    (
        {"startingOffsets": '{"t":{"0":5},"*":"latest"}'},
        "startingOffsets for * can't be latest for batch queries on Kafka" + NOT_LATEST,
    ),
    (
        {"endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries on Kafka" + NOT_EARLIEST,
    ),
    (
        {"endingOffsets": '{"t":{"0":-2}}'},
        "ending offset for t-0 can't be earliest for batch queries on Kafka" + NOT_EARLIEST,
    ),
    (
        {"endingOffsets": '{"t":{"0":5,"*":"earliest"}}'},
        "ending offset for t can't be earliest for batch queries on Kafka" + NOT_EARLIEST,
    ),
    (
        {"endingOffsets": "group"},
        f"option endingOffsets: {JSON_OFFSETS}, earliest or latest, got group",
    ),
    (
        {"endingTimestamp": "soon"},
        f"option endingTimestamp: Expected a single long value, got soon{ONE_LONG}",
    ),
    (
        {"endingOffsetsByTimestamp": "5"},
        f"option endingOffsetsByTimestamp: {JSON_TIMES} 5",
    ),
    (
        {"startingOffsets": '{"t":{"0":1,"1":1}}', "endingOffsets": '{"t":{"0":1}}'},
        "The specified start offset and end offset should have the same topic-partitions. "
        "Topic-partitions for start offset: t-0, t-1, topic-partitions for end offset: t-0",
    ),
    (
        {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}'},
        "The specified start offset 1 is greater than the end offset 0 for topic t partition 0",
    ),
    (
        {
            "startingOffsetsByTimestamp": '{"t":{"0":6}}',
            "endingOffsetsByTimestamp": '{"t":{"0":5}}',
        },
        "The specified start timestamp 6 is greater than the end timestamp 5 for topic t "
        "partition 0",
    ),
]


def cases() -> list[tuple[dict[str, str | None], str, bool]]:
    """Returns the rows of all tables with the kind of read."""
    return (
        [(*row, False) for row in STREAMS]
        + [(*row, batch) for row in BOTH for batch in (False, True)]
        + [(*row, True) for row in BATCHES]
    )


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "bad batch query options",
)
@pytest.mark.parametrize(("changes", "message", "batch"), cases())
def test_mistakes(changes: dict[str, str | None], message: str, batch: bool) -> None:
    """Every mistake has one sentence that names the option, in the connector's words."""
    with pytest.raises(OptionError) as caught:
        parse(with_changes(changes), batch=batch)

    assert message == caught.value.message
    assert not isinstance(caught.value, NotBuilt)


_texts = st.text(max_size=20) | st.sampled_from(
    ["earliest", "latest", "group", "-1", "-2h", "{}", '{"t":{"0":1}}', '{"t":"latest"}', "9" * 30]
)
_names = st.sampled_from(
    [
        f"{kind}{name}"
        for kind in ("starting", "ending")
        for name in ("Offsets", "Timestamp", "OffsetsByTimestamp")
    ]
    + ["kfetch.startingGroup", "startingOffsetsByTimestampStrategy"]
)


@given(st.dictionaries(_names, _texts, max_size=4), st.booleans())
def test_any_text_is_read_or_refused(options: dict[str, str], batch: bool) -> None:
    """No text of these options raises anything but OptionError."""
    with contextlib.suppress(OptionError):
        parse(with_changes({**options}), batch=batch)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"t":{"' + "9" * 5000 + '":1}}',
        '{"t":{"0":' + "9" * 5000 + "}}",
        '{"t":"-' + "9" * 5000 + 'h"}',
        "-" + "9" * 5000,
    ],
    ids=["deep", "long partition", "long number", "long time", "long text"],
)
@pytest.mark.parametrize("option", ["startingTimestamp", "endingOffsetsByTimestamp"])
def test_monstrous_texts(option: str, text: str) -> None:
    """Texts made to break parsers are refused like any other."""
    with pytest.raises(OptionError):
        parse(with_changes({option: text}), batch=True)
