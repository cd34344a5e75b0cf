"""The text of Spark's checkpoint files, read and written for Spark's connector."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.admin.offset_log import (
    Writer,
    connector_json,
    initial_text,
    parse_batch,
    parse_initial,
)
from kfetch.errors import CheckpointError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position, from_json
from tests.kfetch.admin.checkpoints import METADATA, ours, theirs

TOPICS = st.from_regex(r"\A[a-zA-Z0-9._-]{1,20}\Z")
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 10_000))
POSITIONS = st.builds(Position, st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))
OFFSETS = st.dictionaries(PARTITIONS, POSITIONS, max_size=20)
LINES = [ours(4, 2), theirs(4, 2), "-", '{"logOffset":0}', '{"0":{"value":1,"runTimeMs":2}}', "5"]


@given(OFFSETS)
def test_the_connectors_form_keeps_every_next_offset(
    positions: dict[TopicPartition, Position],
) -> None:
    """Any positions, written for the connector and read by kfetch, have the same next offsets."""
    text = connector_json(positions)

    assert {tp: at.offset for tp, at in positions.items()} == {
        tp: at.offset for tp, at in from_json(json.loads(text)).positions.items()
    }
    assert {-1} >= {at.leader_epoch for at in from_json(json.loads(text)).positions.values()}


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
)
@given(OFFSETS)
def test_the_start_of_batch_0_is_read_back(positions: dict[TopicPartition, Position]) -> None:
    """``sources/0/0`` has a zero byte, the version and the offsets, as the connector reads it."""
    text = initial_text(positions)

    assert text.startswith("\x00v1\n{")
    assert positions.keys() == parse_initial(text).positions.keys()


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.sampled_from(["v1", "v2"]))
def test_only_lines_of_kfetch_change(lines: list[str], version: str) -> None:
    """In both versions of the file, every line but kfetch's stays as it is, byte for byte."""
    named = [f"{n}:{line}" if version == "v2" else line for n, line in enumerate(lines)]
    after = [theirs(4, 2) if line == ours(4, 2) else line for line in lines]
    after = [f"{n}:{line}" if version == "v2" else line for n, line in enumerate(after)]
    text = "\n".join([version, METADATA, *named])

    batch = parse_batch(7, text)

    assert text == batch.text()
    assert "\n".join([version, METADATA, *after]) == batch.with_connector_offsets().text()


@pytest.mark.parametrize(
    ("line", "writer"),
    [
        (ours(1), Writer.KFETCH),
        (ours(1, sessions={"1": [7, 2]}), Writer.KFETCH),
        (theirs(1), Writer.CONNECTOR),
        (theirs(1, topic="version"), Writer.CONNECTOR),
        ("{}", Writer.CONNECTOR),
        ("-", Writer.NONE),
        ("5", Writer.OTHER),
        ('{"logOffset":3}', Writer.OTHER),
        ('{"sourceVersion":1,"reservoirId":"x","index":4}', Writer.OTHER),
        ('{"version":1,"snapshot_id":9,"position":0,"scan_all_files":false}', Writer.OTHER),
        ('{"offset":10,"timestamp":0}', Writer.OTHER),
        ('{"0":{"value":1,"runTimeMs":2}}', Writer.OTHER),
    ],
)
def test_the_source_that_wrote_a_line(line: str, writer: Writer) -> None:
    """Offsets of files, Delta, Iceberg, rates and topics of odd names are told apart."""
    parsed = parse_batch(0, f"v1\n{METADATA}\n{line}").lines[0]

    assert writer is parsed.writer
    assert (writer in (Writer.KFETCH, Writer.CONNECTOR)) == (parsed.offsets is not None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("v3\n{}\n-", "is of version v3, and this kfetch knows v1 and v2"),
        ("v1", "is no plan of a micro-batch"),
        ("v1\n{}", "is no plan of a micro-batch"),
        ("v1\n{}\n{broken", "is no plan of a micro-batch"),
        ("v1\n{broken\n-", "is no plan of a micro-batch"),
        ("v2\n{}\n-", "has no name of its source"),
        ('v1\n{}\n{"version": 9}', "has version 9, but this kfetch knows version 1"),
        ('v1\n{}\n{"version": 1, "topics": {"t": {}}}', "can't be used"),
        (f"v1\n{{}}\n{theirs(-1)}", "can't be used"),
    ],
)
def test_a_damaged_plan_is_one_sentence(text: str, sentence: str) -> None:
    """A damaged or newer file has a sentence that names what is wrong."""
    with pytest.raises(CheckpointError) as raised:
        parse_batch(0, text)

    assert sentence in raised.value.what


def test_metadata_may_be_empty_and_a_file_may_end_in_a_newline() -> None:
    """Spark reads such a file too."""
    batch = parse_batch(3, f"v1\n\n{theirs(8)}\n")

    assert None is batch.planned_s
    assert (Offsets(positions={TopicPartition("clicks", 0): Position(8)}),) == batch.sources


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)",
)
@pytest.mark.parametrize("text", [f"\x00v1\n{theirs(5)}", theirs(5), f"v1\n{theirs(5)}"])
def test_starts_of_older_connectors_are_read(text: str) -> None:
    """Spark 2.1.0 wrote the start of batch 0 without a version."""
    assert {TopicPartition("clicks", 0): Position(5)} == parse_initial(text).positions


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "deserialization of initial offset written by future version",
)
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"\x00v2\n{theirs(5)}", "is of version v2, and this kfetch knows v1"),
        ("\x00v1\n", "holds no start"),
        ('\x00v1\n{"logOffset":0}', "holds no start"),
    ],
)
def test_a_damaged_start_is_one_sentence(text: str, sentence: str) -> None:
    """A newer or damaged ``sources/0/0`` has a sentence."""
    with pytest.raises(CheckpointError, match=sentence):
        parse_initial(text)
