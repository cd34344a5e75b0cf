"""``kfetch plan`` and ``kfetch lag``, with a scripted Kafka and checkpoints in Spark's format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfetch.admin import sources
from kfetch.model import TopicPartition
from kfetch_jobs import config
from kfetch_jobs.checkpoints.checkpoint import job_checkpoint
from kfetch_jobs.offsets.job_report import match_sources
from tests.kfetch.wire.little import DESCRIBE_ONLY, LittleKafka
from tests.kfetch_jobs.checkpoints import committed, job, offset, planned
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB, PROJECT

WITHOUT_TRANSFORM = JOB.replace("transform:\n  sql: SELECT * FROM source\n", "")
LENIENT = JOB.replace("includeHeaders: true", "failOnDataLoss: false")
T0 = TopicPartition("clicks", 0)


@pytest.fixture
def kafka(kafka_of_new_job: LittleKafka) -> LittleKafka:
    """Replaces the ``kafka`` of conftest, whose job has a checkpoint."""
    return kafka_of_new_job


def positions(plan: Any) -> list[Any]:
    """Returns the position of each partition of the plan's only source."""
    return [partition["position"] for partition in plan["sources"][0]["partitions"]]


def test_a_new_job_begins_at_starting_offsets(kafka: LittleKafka, kfetch: Command) -> None:
    """The plan of a new job has its start and its backlog. Only Spark knows the columns."""
    plan = kfetch.plan()
    assert (4, [0, 0], None, True) == (
        plan["behind"],
        positions(plan),
        plan["planned"],
        plan["fits"],
    )
    assert plan["columns"] is None

    code, out, _ = kfetch("plan", "clicks")
    assert 0 == code
    assert "starts at startingOffsets (earliest)" in out
    assert "the transform makes them; only Spark knows them" in out
    assert "a run would read 4 offsets now" in out


@pytest.mark.usefixtures("kafka")
def test_the_way_of_the_rows(kfetch: Command) -> None:
    """The plan says whether tasks write the files, with their columns, else the clause that needs
    Spark. What a run would refuse is a failure."""
    said = kfetch("plan", "clicks")[1]
    assert "\nwritten through Spark (sink.write)\n" in said
    auto = JOB.replace("  path:", "  write: auto\n  path:")
    job(auto)
    assert "\nwritten straight: tasks write the table's files\n" in kfetch("plan", "clicks")[1]
    job(auto.replace("SELECT *", "SELECT offset AS at, headers AS h"))
    assert "at bigint, h array<struct<key:string,value:binary>>" == kfetch.plan()["columns"]
    job(auto.replace("FROM source", "FROM source LIMIT 3"))
    plan = kfetch.plan()
    assert ("LIMIT in transform.sql", None) == (plan["through_spark"], plan["write_refusal"])
    partitioned = auto.replace("auto\n", "straight\n  partitionBy: value\n")
    job(partitioned)
    code, said, _ = kfetch("plan", "clicks")
    assert (1, True) == (code, "FAILS: conf/jobs/clicks.yml:11: sink.write is straight" in said)


@pytest.mark.parametrize("into", ["value", "event"])
@pytest.mark.usefixtures("kafka")
def test_the_columns_of_a_job_without_transform(kfetch: Command, into: str) -> None:
    """``decode`` gives the struct its name. Dead letters have a table of their own."""
    text = JOB.replace("transform:\n  sql: SELECT * FROM source\n", "")
    text = text.replace("  options:\n", f"  decode: {{fields: a INT, into: {into}}}\n  options:\n")
    job(text.replace("sink:\n", "sink:\n  deadLetters: {path: dead}\n"))
    columns = kfetch.plan()["columns"]

    assert f"{into} struct<a:int>" in columns
    assert (", value " in columns) is (into == "value")
    assert "deadLetter" not in columns


def test_a_topic_that_is_missing(kafka: LittleKafka, kfetch: Command) -> None:
    """The plan of a new job without its topic fails with one line, as the job would."""
    del kafka.topics["clicks"]
    code, _, err = kfetch("plan", "clicks")

    assert 1 == code
    assert "kfetch: job clicks, source (clicks): clicks: no such topic" in err


@pytest.mark.parametrize("has_run", [False, True])
def test_a_pattern_without_topics(kafka: LittleKafka, kfetch: Command, has_run: bool) -> None:
    """A run would wait. ``plan`` and ``lag`` say so, as of a topic that does not exist."""
    if has_run:
        planned(7, {"clicks": {}})
        committed(7)
    job(JOB.replace("subscribe: clicks", "subscribePattern: clik.*"))
    for verb in (["plan", "clicks"], ["lag"]):
        code, out, _ = kfetch(*verb)
        assert 1 == code
        assert "no topic matches subscribePattern clik.* yet" in " ".join(out.split())


def test_a_topic_that_is_missing_behind_a_checkpoint(kafka: LittleKafka, kfetch: Command) -> None:
    """``plan`` and ``lag`` name the missing topic, then its lost partitions. A missing topic that
    the checkpoint does not have is no failure, but both name it."""
    planned(7, offset(kafka, 2, 1))
    committed(7)
    missing = f"clikcs: no such topic or partition at {kafka.bootstrap}; create it, or correct the"
    for subscribed, lines in (
        ("clikcs", ["FAILS: clikcs: no", "FAILS: clicks-0 no", "FAILS: clicks-1 no"]),
        ("clicks,clikcs", ["missing: clikcs: no"]),
    ):
        job(JOB.replace("subscribe: clicks", f"subscribe: {subscribed}"))
        code, out, _ = kfetch("plan", "clicks")
        starts = [re.match(r"  (\w+: \S+(?: no)?)", line) for line in out.splitlines()]
        assert (1, lines) == (code, [start[1] for start in starts if start])
        assert missing in out

        code, out, _ = kfetch("lag")
        assert 1 == code
        assert missing in " ".join(out.split())


def test_a_job_continues_from_its_checkpoint(kafka: LittleKafka, kfetch: Command) -> None:
    """The plan starts after the last committed micro-batch. A partition without a position is
    new."""
    job(WITHOUT_TRANSFORM)
    planned(7, offset(kafka, 2))
    committed(7)
    plan = kfetch.plan()

    assert (7, 7, [2, 0], 2) == (
        plan["planned"],
        plan["committed"],
        positions(plan),
        plan["behind"],
    )
    assert [False, True] == [partition["new"] for partition in plan["sources"][0]["partitions"]]
    assert plan["columns"].startswith("key binary, value binary, topic string")
    assert plan["columns"].endswith("headers array<struct<key:string,value:binary>>")
    assert "the next run continues after micro-batch 7" in kfetch("plan", "clicks")[1]


def test_a_planned_micro_batch_runs_again(kafka: LittleKafka, kfetch: Command) -> None:
    """A micro-batch without a commit runs again, from the end of the one before it."""
    planned(7, offset(kafka, 1, 0))
    planned(8, offset(kafka, 3, 1))
    committed(7)

    assert [1, 0] == positions(kfetch.plan())
    assert "micro-batch 8 is planned and not committed" in kfetch("plan", "clicks")[1]


def test_the_first_micro_batch_runs_again(kafka: LittleKafka, kfetch: Command) -> None:
    """Micro-batch 0 has its own start, because Spark does not log it."""
    planned(0, offset(kafka, 3, 1, **{"from": {"clicks": {"0": [1, 0], "1": [0, 0]}}}))

    assert [1, 0] == positions(kfetch.plan())


def test_the_end_of_a_planned_micro_batch_must_fit(kafka: LittleKafka, kfetch: Command) -> None:
    """If the log has lost the planned end offset, the next run fails at once."""
    planned(0, offset(kafka, 1, 0))
    planned(1, offset(kafka, 9, 1, epoch=-1))
    committed(0)

    (loss,) = kfetch.plan(1)["losses"]
    assert "clicks-0: offset 9 lies past the log end 3" in loss


def expired(kafka: LittleKafka) -> None:
    kafka.log(T0).append(b"d")
    kafka.log(T0).expire(3)


def created_again(kafka: LittleKafka) -> None:
    kafka.create("clicks", 2)


def truncated(kafka: LittleKafka) -> None:
    kafka.log(T0).truncate(0)
    kafka.elect(T0, 1)
    kafka.log(T0).append(b"y", b"z")


def beyond(kafka: LittleKafka) -> None:
    planned(3, offset(kafka, 2, 1, epoch=-1))  # without an epoch, a truncation can't be recognised
    kafka.log(T0).truncate(0)


def gone(kafka: LittleKafka) -> None:
    kafka.topics["clicks"].logs.pop()


@pytest.mark.parametrize(
    ("damage", "sentence", "positions_after"),
    [
        (expired, "offsets 2 to 3 have expired unread", [3, 1]),
        (created_again, "topic clicks was deleted and created again", [0, 0]),
        (truncated, "clicks-0 was truncated at offset 0", [0, 1]),
        (beyond, "clicks-0: offset 2 lies past the log end 0", [0, 1]),
        (gone, "clicks-1 no longer exists", [2]),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    kafka: LittleKafka,
    kfetch: Command,
    damage: Callable[[LittleKafka], None],
    sentence: str,
    positions_after: list[int],
) -> None:
    """The plan shows the loss that the run would meet. With ``failOnDataLoss=false`` it shows the
    positions at which the run continues."""
    planned(3, offset(kafka, 2, 1))
    committed(3)
    damage(kafka)

    plan = kfetch.plan(1)
    assert sentence in plan["losses"][0]
    assert f"FAILS: {plan['losses'][0]}" in kfetch("plan", "clicks")[1]
    code, out, _ = kfetch("lag")
    assert (1, True) == (code, "records are gone in" in out)
    # The planned micro-batch and its start have the same loss: one sentence for each partition.
    partitions = [re.findall(r"clicks-\d", sentence)[-1] for sentence in plan["losses"]]
    assert sorted({*partitions}) == sorted(partitions)

    job(LENIENT)
    plan = kfetch.plan()
    assert sentence in plan["losses"][0]
    assert positions_after == positions(plan)


def test_dead_letters_are_no_column_of_the_sink(
    project: Path, kafka: LittleKafka, kfetch: Command
) -> None:
    """The source gives them as a column, which goes to a table of its own."""
    text = WITHOUT_TRANSFORM.replace(
        "  options:\n", "  options:\n    valueFormat: json\n    valueSchema: id INT\n"
    ).replace("sink:\n", "sink:\n  deadLetters: {path: dead}\n")
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    columns = json.loads(kfetch("plan", "clicks", "--json")[1])["columns"]

    assert "value struct<id:int>" in columns
    assert "deadLetter" not in columns


def test_a_topic_of_many_partitions(kafka: LittleKafka, kfetch: Command) -> None:
    """The plan lists the partitions with the largest backlogs, and counts the others."""
    kafka.create("clicks", 30)[29].append(b"x")
    lines = kfetch("plan", "clicks")[1].splitlines()

    assert ["clicks-29", "2", "0", "to", "1", "0", "1"] == lines[6].split()
    assert "  and 10 more: kfetch lag clicks --partitions shows all" == lines[-2]


def test_lag_of_every_job(
    kafka: LittleKafka, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a job's cluster does not answer, ``kfetch lag`` shows the other jobs and exits with 1."""
    monkeypatch.setattr(sources, "LOOKUP_TIMEOUT_S", 2.0)  # for the broker that does not answer
    planned(3, offset(kafka, 2, 1))
    committed(3)
    two_clusters = PROJECT.replace(
        "clusters:", "clusters:\n  away:\n    bootstrap.servers: 127.0.0.1:1"
    )
    Path("conf/kfetch.yml").write_text(two_clusters)
    job(JOB.replace("cluster: local", "cluster: away"), "remote")
    code, out, _ = kfetch("lag", "--json")
    clicks, remote = json.loads(out)

    assert (1, 1, 3, None) == (code, clicks["behind"], clicks["committed"], remote["behind"])
    assert "job remote, source (clicks): " in remote["error"]
    assert (0, 2) == (kfetch("lag", "clicks")[0], kfetch("lag", "click")[0])


def test_lag_of_every_partition(kafka: LittleKafka, kfetch: Command) -> None:
    """``lag --partitions`` shows the lag of each partition."""
    planned(3, offset(kafka, 2, 1))
    committed(3)
    (lag,) = json.loads(kfetch("lag", "--partitions", "--json")[1])

    assert [("clicks", 0, 2, 3, 1), ("clicks", 1, 1, 1, 0)] == [
        tuple(partition[key] for key in ("topic", "partition", "position", "log_end", "behind"))
        for partition in lag["partitions"]
    ]
    assert [["clicks", "clicks-0", "2", "3", "1"], ["clicks", "clicks-1", "1", "1", "0"]] == [
        line.split() for line in kfetch("lag", "--partitions")[1].splitlines()[1:]
    ]


def test_a_partition_without_a_leader(kafka: LittleKafka, kfetch: Command) -> None:
    """The reports name a partition without a leader, and count the others."""
    planned(3, offset(kafka, 2, 0))
    committed(3)
    kafka.elect(T0, None)

    plan = kfetch.plan(1)
    assert (["clicks-0"], 1) == (plan["leaderless"], plan["behind"])
    assert "1 partition has no leader, clicks-0 first" in kfetch("lag")[1]


@pytest.mark.parametrize("has_run", [True, False])
def test_a_topic_that_may_be_described_and_not_read(
    kafka: LittleKafka, kfetch: Command, has_run: bool
) -> None:
    """Both verbs name the operation that the job's user lacks, and exit with 1."""
    if has_run:
        planned(3, offset(kafka, 2, 0))
        committed(3)
    kafka.operations["clicks"] = DESCRIBE_ONLY
    lacks = (
        "the ACLs of topic clicks let this user (User:ANONYMOUS where there is no log-in) describe "
        "it and not read it: add the operation READ with"
    )

    code, out, _ = kfetch("plan", "clicks")
    assert 1 == code
    assert f"  FAILS: {lacks}" in out
    code, out, _ = kfetch("lag")
    assert 1 == code
    assert lacks in " ".join(out.split())
    assert [f"{lacks} kafka-acls.sh"] == kfetch.plan(1)["unreadable"]


TWO_SOURCES = """\
sources:
  clicks: {cluster: local, subscribe: clicks}
  users: {cluster: local, subscribe: users}
transform:
  sql: SELECT * FROM clicks
sink:
  path: t
trigger: availableNow
"""


def test_topics_identify_sources(kafka: LittleKafka, kfetch: Command) -> None:
    """Spark numbers sources in the order of its plan, not of the file. Topics identify them."""
    kafka.create("users")[0].append(b"u")
    job(TWO_SOURCES)
    planned(0, {"users": {"0": 1}}, offset(kafka, 2, 1))
    committed(0)
    plan = kfetch.plan()

    assert {"clicks": 1, "users": 0} == {
        source["view"]: sum(partition["behind"] for partition in source["partitions"])
        for source in plan["sources"]
    }


def test_a_source_that_spark_reads_twice(kafka: LittleKafka, kfetch: Command) -> None:
    """Beside dead letters, Spark reads the source of a transform with state twice. Then the
    checkpoint has it twice, and the first entry counts. So no offset counts twice."""
    planned(3, offset(kafka, 1, 1), offset(kafka, 1, 1))
    committed(3)
    plan = kfetch.plan()

    assert (2, [1, 1], True) == (plan["behind"], positions(plan), plan["fits"])
    code, out, _ = kfetch("lag", "clicks", "--json")
    assert (0, 2) == (code, json.loads(out)[0]["behind"])


def test_a_move_of_a_source_that_spark_reads_twice(kafka: LittleKafka, kfetch: Command) -> None:
    """Moving one of the two would lose or repeat records, so kfetch refuses."""
    planned(3, offset(kafka, 1, 1), offset(kafka, 1, 1))
    committed(3)
    code, _, err = kfetch("offsets", "reset", "clicks", "--to-earliest")

    assert 1 == code
    assert "the checkpoint has the source 2 times" in err


def test_sources_with_the_same_topics(kafka: LittleKafka, kfetch: Command) -> None:
    """Two sources that read one topic are an error, because kfetch can't match their offsets."""
    job(TWO_SOURCES.replace("subscribe: users", "subscribe: clicks"))
    planned(0, offset(kafka, 1, 1), offset(kafka, 2, 1))
    code, _, err = kfetch("plan", "clicks")

    assert 1 == code
    assert "kfetch can't match views and offsets; kfetch offsets show clicks prints all" in err


@pytest.mark.parametrize("topics", [["clicks", "old"], ["old", "clicks"]])
def test_a_source_whose_topic_changed(kafka: LittleKafka, topics: list[str]) -> None:
    """The last view without a source has the last source without a view. Spark continues there."""
    job(TWO_SOURCES)
    ends = {"clicks": offset(kafka, 2, 1), "old": {"old": {"0": 5}}}
    planned(0, *(ends[topic] for topic in topics))
    committed(0)

    expected = {"clicks": topics.index("clicks"), "users": topics.index("old")}
    assert expected == sources_of_views()


def sources_of_views() -> dict[str, int | None]:
    the_job = config.load(config.find(Path.cwd())).job("clicks")
    return match_sources(the_job, job_checkpoint(the_job))


def test_a_view_that_is_new(kafka: LittleKafka) -> None:
    """A source that several views may have belongs to none of them."""
    job(TWO_SOURCES.replace("transform", "  views: {cluster: local, subscribe: views}\ntransform"))
    planned(0, offset(kafka, 2, 1), {"old": {"0": 5}})
    committed(0)

    assert {"clicks": 0, "users": None, "views": None} == sources_of_views()
