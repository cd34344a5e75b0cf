"""Lag from progress that Spark 4.2 reported, of kfetch and of its own connector (progress.json)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.model import TopicPartition
from kfetch.spark.lag import Lag, LagHistory, PartitionLag
from kfetch.spark.listener import LagListener

RECORDED = json.loads((Path(__file__).parent / "progress.json").read_text())
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def recorded(query: str) -> list[dict[str, Any]]:
    """The progress of one query, batch after batch."""
    return [progress for progress in RECORDED if progress["name"] == query]


# What was produced: 12 and 3 records (kfetch) or 12 and 11 (connector), then 8 more in clicks-1,
# read with maxOffsetsPerTrigger=6.
OFFSETS = [
    ("run_kfetch", [(8, 2), (4, 1), (0, 0), (0, 2), (0, 0)]),
    ("run_kafka", [(9, 9), (6, 6), (3, 3), (0, 0), (0, 2), (0, 0)]),
]


@pytest.mark.connector_case(
    "KafkaMicroBatchV2SourceSuite",
    "test custom metrics - with rate limit",
    "test custom metrics - no rate limit",
)
@pytest.mark.parametrize(("query", "expected"), OFFSETS)
@pytest.mark.parametrize("as_text", [False, True])
def test_offsets(query: str, expected: list[tuple[int, int]], as_text: bool) -> None:
    """The lag of each partition is its log end less the batch's end, in JSON or as PySpark has it;
    the total is the sum."""
    reported = []
    for progress in recorded(query):
        source = progress["sources"][0]
        offsets = {k: json.dumps(v) if as_text else v for k, v in source.items()}
        (lag,) = LagHistory().lags({**progress, "sources": [offsets]})
        reported.append(tuple(p.offsets for p in lag.partitions.values()))
        assert sum(reported[-1]) == lag.offsets
        assert query == lag.query

    assert expected == reported


def test_the_connectors_own_metric() -> None:
    """The largest lag of a partition is the connector's maxOffsetsBehindLatest."""
    for progress in recorded("run_kafka"):
        (lag,) = LagHistory().lags(progress)
        behind_latest = int(progress["sources"][0]["metrics"]["maxOffsetsBehindLatest"])
        assert behind_latest == max(p.offsets for p in lag.partitions.values())


def test_recorded_seconds() -> None:
    """A backlog from before the first progress has no upper bound; a later one has the time since
    the query last stood at the log's end."""
    history = LagHistory()
    reported = [lag for progress in recorded("run_kfetch") for lag in history.lags(progress)]

    assert [0.0, 0.653, 0.0, 0.0, 0.0] == [round(lag.at_least_s, 3) for lag in reported]
    assert [None, None, 0.0, 3.913, 0.0] == [
        None if lag.at_most_s is None else round(lag.at_most_s, 3) for lag in reported
    ]
    assert (
        "run_kfetch: 2 offsets behind in 1 of 2 partitions, most in clicks-1 (2), for 0.0 s at "
        "least (at most: 3.9 s)"
    ) == str(reported[3])


def progress(at_s: float, end: Mapping[int, int], latest: Mapping[int, int]) -> dict[str, Any]:
    """Returns a progress at ``at_s`` seconds, with the connector's offsets of topic t."""
    when = datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
    offsets = {"endOffset": {"t": end}, "latestOffset": {"t": latest}}
    keyed = json.loads(json.dumps(offsets))
    return {"id": "i", "runId": "r", "name": None, "timestamp": when, "sources": [keyed]}


def last_lag(*reports: dict[str, Any]) -> Lag:
    """The lag of the last report, after the others."""
    history = LagHistory()
    for report in reports:
        (lag,) = history.lags(report)
    return lag


def test_seconds_of_a_backlog_that_is_worked_off() -> None:
    """The next record arrived after the last progress with a lower log end. It arrived before the
    first progress with a higher one."""
    lag = last_lag(
        progress(10, {0: 5}, {0: 5}),
        progress(20, {0: 6}, {0: 9}),  # 6 to 8 came between 10 and 20
        progress(30, {0: 7}, {0: 20}),
        progress(40, {0: 8}, {0: 20}),
        progress(50, {0: 9}, {0: 30}),  # 9 to 19 came between 20 and 30
    )

    assert {A: PartitionLag(offsets=21, at_least_s=20.0, at_most_s=30.0)} == lag.partitions
    assert "i" == lag.query


def test_each_partition_has_its_own_seconds() -> None:
    """The lag of a query in seconds is that of its worst partition."""
    lag = last_lag(
        progress(0, {0: 1, 1: 1}, {0: 1, 1: 1}),
        progress(7, {0: 1, 1: 2}, {0: 3, 1: 2}),
        progress(9, {0: 1, 1: 2}, {0: 3, 1: 4}),
    )

    assert {
        A: PartitionLag(offsets=2, at_least_s=2.0, at_most_s=9.0),
        B: PartitionLag(offsets=2, at_least_s=0.0, at_most_s=2.0),
    } == lag.partitions
    assert (2.0, 9.0) == (lag.at_least_s, lag.at_most_s)


def test_a_partition_seen_first_with_a_backlog() -> None:
    """A new partition's backlog may be of any age."""
    lag = last_lag(progress(0, {0: 1}, {0: 1}), progress(5, {0: 1, 1: 0}, {0: 1, 1: 3}))

    assert PartitionLag(offsets=3, at_least_s=0.0, at_most_s=None) == lag.partitions[B]
    assert lag.at_most_s is None


PARTITIONS = 3


@st.composite
def growing_reports(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Progress every second. Log ends and positions only grow, and partitions may come later."""
    ends, positions, reports = [0] * PARTITIONS, [0] * PARTITIONS, []
    first = [0, *(draw(st.integers(0, 5)) for _ in range(1, PARTITIONS))]
    for at_s in range(draw(st.integers(1, 30))):
        known = [p for p in range(PARTITIONS) if first[p] <= at_s]
        for p in known:
            ends[p] += draw(st.integers(0, 4))
            positions[p] = min(ends[p], positions[p] + draw(st.integers(0, 4)))
        reports.append(
            progress(at_s, {p: positions[p] for p in known}, {p: ends[p] for p in known})
        )
    return reports


@given(growing_reports())
def test_seconds_follow_from_all_earlier_progress(reports: list[dict[str, Any]]) -> None:
    """A record has waited at least since the first progress with a higher log end, and at most
    since the last one whose log end the query has reached. So the history forgets nothing that a
    later report needs."""
    history = LagHistory()
    for count, report in enumerate(reports, 1):
        (lag,) = history.lags(report)
        for tp, one in lag.partitions.items():
            seen = [each["sources"][0]["latestOffset"]["t"] for each in reports[:count]]
            ends = [
                (at_s, each[str(tp.partition)])
                for at_s, each in enumerate(seen)
                if str(tp.partition) in each
            ]
            position = report["sources"][0]["endOffset"]["t"][str(tp.partition)]
            reached = [at_s for at_s, end in ends if end <= position]
            higher = [at_s for at_s, end in ends if end > position]
            now_s = count - 1
            least_s = now_s - higher[0] if higher else 0
            most_s = now_s - reached[-1] if reached else None

            assert (
                PartitionLag(offsets=ends[-1][1] - position, at_least_s=least_s, at_most_s=most_s)
                == one
            )


def test_a_log_that_begins_again() -> None:
    """A topic that was created again has lower log ends. Its seconds count from there."""
    lag = last_lag(
        progress(0, {0: 90, 1: 1}, {0: 90, 1: 1}),
        progress(10, {0: 90, 1: 1}, {0: 95, 1: 2}),
        progress(20, {0: 0, 1: 1}, {0: 4, 1: 2}),
        progress(30, {0: 1, 1: 1}, {0: 6, 1: 2}),
    )

    assert {
        A: PartitionLag(offsets=5, at_least_s=10.0, at_most_s=None),
        B: PartitionLag(offsets=1, at_least_s=20.0, at_most_s=30.0),
    } == lag.partitions


def test_a_topic_that_is_away_for_one_report() -> None:
    """It may have been created again meanwhile, so what its old log ends say is forgotten."""
    both = [progress(10 * n, {0: 5, 1: 1}, {0: 100 + n, 1: 2}) for n in range(5)]
    gone = progress(50, {1: 1}, {1: 2})
    back = [progress(60, {0: 50, 1: 1}, {0: 50, 1: 2}), progress(70, {0: 55, 1: 1}, {0: 60, 1: 2})]

    found = last_lag(*both, gone, *back).partitions[A]
    assert PartitionLag(offsets=5, at_least_s=0.0, at_most_s=10.0) == found


def test_a_long_history_costs_little() -> None:
    """Behind 60 reports, a report of a query that is behind takes few calls for each partition."""
    calls, history, count = 0, LagHistory(), 500

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for at_s in range(60):
        ends = dict.fromkeys(range(count), 1000 + at_s)
        report = progress(at_s, dict.fromkeys(range(count), at_s), ends)
        calls, before = 0, sys.getprofile()
        sys.setprofile(note)
        try:
            history.lags(report)
        finally:
            sys.setprofile(before)

    assert calls < 40 * count


def test_history_is_bounded() -> None:
    """A query that lags for long keeps few samples, evenly spread, so that its seconds stay close;
    one that has caught up keeps one."""
    history = LagHistory()
    for at_s in range(1000):
        (lag,) = history.lags(progress(at_s, {0: 5}, {0: 5 + at_s}))
    assert len(history._runs["r"][0]) <= 64
    assert 999.0 == lag.at_most_s
    assert 950 < lag.at_least_s <= 998
    history.lags(progress(2000, {0: 2000}, {0: 2000}))

    assert 1 == len(history._runs["r"][0])


@pytest.mark.connector_case(
    "KafkaMicroBatchV2SourceSuite",
    "test custom metrics - corner cases",
    "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null",
)
@pytest.mark.parametrize(
    "source",
    [
        {"endOffset": None, "latestOffset": None},
        {"endOffset": {"t": {"0": 1}}, "latestOffset": None},  # a batch repeated after a restart
        {"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 4}},  # files
        {"endOffset": 7, "latestOffset": 9},  # rate
        {"endOffset": "7", "latestOffset": "9"},
        {"endOffset": "no JSON", "latestOffset": "{}"},
        {},
    ],
)
def test_other_sources_are_passed_over(source: dict[str, Any]) -> None:
    """A source without Kafka offsets, or without known ones, has no lag. The others have one."""
    report = progress(0, {0: 1}, {0: 3})
    report["sources"].insert(0, source)

    assert [(1, 2)] == [(lag.source, lag.offsets) for lag in LagHistory().lags(report)]


def event(report: dict[str, Any]) -> Any:
    """Spark's event of a progress."""
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report)))


def test_listener_reports_each_progress() -> None:
    """The listener passes the lag of each progress on, and forgets a run that has ended."""
    reported: list[Lag] = []
    listener = LagListener(reported.append)
    for report in recorded("run_kafka"):
        listener.onQueryProgress(event(report))
    run = RECORDED[-1]["runId"]
    held = run in listener._history._runs
    listener.onQueryTerminated(SimpleNamespace(runId=run))  # type: ignore[arg-type]

    assert [18, 12, 6, 0, 2, 0] == [lag.offsets for lag in reported]
    assert held
    assert listener._history is not None
    assert run not in listener._history._runs


def test_listener_logs_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Without a user's function, the listener logs the lag."""
    with caplog.at_level(logging.INFO):
        LagListener().onQueryProgress(event(recorded("run_kafka")[0]))

    assert "run_kafka: 18 offsets behind in 2 of 2 partitions" in caplog.text


def test_without_log_ends_a_lag_is_unknown() -> None:
    """Before Spark 4.2, a progress has the end of kfetch's micro-batch in place of the log end. A
    lag of 0 would be wrong, so there is none."""
    history = LagHistory(has_own_ends=False)

    assert [] == [lag for report in recorded("run_kfetch") for lag in history.lags(report)]
    assert len(OFFSETS[1][1]) == sum(len(history.lags(each)) for each in recorded("run_kafka"))


def test_a_listener_tells_that_lags_are_unknown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It names another way to see the lag."""
    monkeypatch.setattr("kfetch.spark.listener.reports_log_ends", lambda: False)
    listener = LagListener(lambda lag: pytest.fail("no lag is known"))
    listener.onQueryProgress(event(recorded("run_kfetch")[0]))

    assert "set the source option kfetch.commitGroup" in caplog.text


@pytest.mark.parametrize(("server", "count"), [("4.0.5", 0), ("4.1.4", 0), ("4.2.0", 1)])
def test_a_listener_asks_the_server_of_spark_connect(server: str, count: int) -> None:
    """The server makes the progress. The client may be of another version."""
    reported: list[Lag] = []
    listener = LagListener(reported.append)
    listener.spark = SimpleNamespace(version=server)
    listener.onQueryProgress(event(recorded("run_kfetch")[0]))

    assert count == len(reported)
