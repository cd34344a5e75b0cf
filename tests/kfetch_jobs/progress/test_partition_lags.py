"""How far each partition is behind: as the run writes it, and as the page reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfetch.model import TopicPartition
from kfetch.spark.lag import Lag, PartitionLag
from kfetch_jobs.progress import partition_lags
from kfetch_jobs.progress.partition_lags import TopicLag, summarize
from kfetch_jobs.progress.reports import read_partition_lags, write_partition_lags


def lag(source: int = 0, **behind: list[int]) -> Lag:
    """``lag(clicks=[3, 0])``: partition 0 is 3 behind."""
    return Lag(
        query="q",
        source=source,
        timestamp="2026-01-01T00:00:00.000Z",
        partitions={
            TopicPartition(topic, number): PartitionLag(offsets=offsets, at_least_s=offsets / 4)
            for topic, each in behind.items()
            for number, offsets in enumerate(each)
        },
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By source and topic, partitions in their order; the same topic of two sources twice."""
    write_partition_lags(tmp_path, summarize([lag(b=[1, 0], a=[2]), lag(1, a=[4])], now=7.0))
    found = read_partition_lags(tmp_path)

    assert found is not None
    assert [(0, "a", (2,)), (0, "b", (1, 0)), (1, "a", (4,))] == [
        (topic.source, topic.topic, topic.behind) for topic in found.topics
    ]
    assert TopicLag(source=0, topic="b", partitions=(0, 1), behind=(1, 0), waiting_s=(0.2, 0)) in (
        found.topics
    )
    assert (7.0, 0) == (found.at, found.left_out)


def test_of_too_many_the_furthest_behind_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how many were left out."""
    monkeypatch.setattr(partition_lags, "PARTITIONS_MAX", 3)
    found = summarize([lag(a=[5, 0, 9, 1, 7])], now=1.0)

    assert [(0, 2, 4)] == [topic.partitions for topic in found.topics]
    assert 2 == found.left_out


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"at": "x", "topics": [], "left_out": 0}',
        '{"at": 1, "topics": 5, "left_out": 0}',
        '{"at": 1, "topics": [[]], "left_out": 0}',
        '{"at": 1, "left_out": 0, "topics": [{"source": 0, "topic": "a", "partitions": [0, 1], '
        '"behind": [1], "waiting_s": [0]}]}',
        '{"at": 1, "left_out": 0, "topics": [{"source": 0, "topic": "a", "partitions": [Infinity], '
        '"behind": [1], "waiting_s": [0]}]}',
        '{"at": 1, "left_out": 0, "topics": [{"source": 0, "topic": "a", "partitions": [0], '
        '"behind": [1], "waiting_s": [NaN]}]}',
    ],
)
def test_a_damaged_file_is_none(tmp_path: Path, damage: str) -> None:
    """A page without a heat map is better than none."""
    (tmp_path / "partitions.json").write_text(damage)

    assert read_partition_lags(tmp_path) is None


def test_the_file_is_compact(tmp_path: Path) -> None:
    """10,000 partitions are less than 200 kB: it is written every two seconds."""
    write_partition_lags(tmp_path, summarize([lag(a=list(range(10_000)))], now=1.0))
    path = tmp_path / "partitions.json"

    assert path.stat().st_size < 200_000
    assert 10_000 == len(json.loads(path.read_text())["topics"][0]["behind"])
