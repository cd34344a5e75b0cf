"""``plan``, ``lag``, ``offsets show``: a little Kafka, and checkpoints as Spark writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.admin import sources
from kfetch.model import TopicPartition
from kfetch.watch import lookups, position_check
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import committed, job, offset, planned
from tests.kfetch_jobs.commands import Told
from tests.kfetch_jobs.projects import JOB, PROJECT

PLAIN = JOB.replace("transform:\n  sql: SELECT * FROM source\n", "")
LENIENT = JOB.replace("includeHeaders: true", "failOnDataLoss: false")
T0 = TopicPartition("clicks", 0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses."""
    monkeypatch.setattr(position_check, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(lookups, "_STALE_PAUSE_S", 0.0)


@pytest.fixture
def kafka(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleKafka]:
    """Topic clicks with 3 records in clicks-0 and 1 in clicks-1, and a project over it."""
    with LittleKafka(2) as running:
        first, second = running.create("clicks", 2)
        first.append(b"a", b"b", b"c")
        second.append(b"x")
        monkeypatch.setenv("SERVERS", running.bootstrap)
        yield running
        # Whoever only looks opens no session: a running query's would be evicted for it.
        assert [] == running.asked(FetchRequest)


def planned_by(kfetch: Told, code: int = 0) -> Any:
    """The plan of clicks as JSON."""
    left, out, said = kfetch("plan", "clicks", "--json")
    assert code == left, said
    return json.loads(out)


def positions(told: Any) -> list[Any]:
    return [each["position"] for each in told["sources"][0]["partitions"]]


def test_a_new_job_begins_at_starting_offsets(kafka: LittleKafka, kfetch: Told) -> None:
    """Before the first run the plan has the start, the number of offsets, and what is unknown."""
    told = planned_by(kfetch)
    assert (4, [0, 0], None, True) == (
        told["behind"],
        positions(told),
        told["planned"],
        told["fits"],
    )
    assert told["columns"] is None

    code, out, _ = kfetch("plan", "clicks")
    assert 0 == code
    assert "starts at startingOffsets (earliest)" in out
    assert "the transform makes them; only Spark knows them" in out
    assert "a run would read 4 offsets now" in out


def test_a_topic_that_is_missing(kafka: LittleKafka, kfetch: Told) -> None:
    """The plan of a new job without its topic fails with one line, as the job would."""
    del kafka.topics["clicks"]
    code, _, said = kfetch("plan", "clicks")

    assert 1 == code
    assert "kfetch: job clicks, source source (clicks): clicks: no such topic" in said


def test_a_topic_that_is_missing_behind_a_checkpoint(kafka: LittleKafka, kfetch: Told) -> None:
    """The plan and the lag name the missing topic first, then the lost partitions. A further
    topic that is missing is no failure, but they name it."""
    planned(7, offset(kafka, 2, 1))
    committed(7)
    missing = f"clikcs: no such topic or partition at {kafka.bootstrap}; create it, or correct the"
    for subscribed, lines in (
        ("clikcs", ["FAILS: clikcs: no", "FAILS: clicks-0 no", "FAILS: clicks-1 no"]),
        ("clicks,clikcs", ["missing: clikcs: no"]),
    ):
        job(JOB.replace("subscribe: clicks", f"subscribe: {subscribed}"))
        code, out, _ = kfetch("plan", "clicks")
        begins = [re.match(r"  (\w+: \S+(?: no)?)", line) for line in out.splitlines()]
        assert (1, lines) == (code, [found[1] for found in begins if found])
        assert missing in out

        code, out, _ = kfetch("lag")
        assert 1 == code
        assert missing in " ".join(out.split())


def test_a_job_goes_on_from_its_checkpoint(kafka: LittleKafka, kfetch: Told) -> None:
    """The plan starts after the last committed micro-batch. A partition without a position is
    new."""
    job(PLAIN)
    planned(7, offset(kafka, 2))
    committed(7)
    told = planned_by(kfetch)

    assert (7, 7, [2, 0], 2) == (
        told["planned"],
        told["committed"],
        positions(told),
        told["behind"],
    )
    assert [False, True] == [each["new"] for each in told["sources"][0]["partitions"]]
    assert told["columns"].startswith("key binary, value binary, topic string")
    assert told["columns"].endswith("headers array<struct<key:string,value:binary>>")
    assert "the next run continues after micro-batch 7" in kfetch("plan", "clicks")[1]


def test_a_planned_micro_batch_comes_again(kafka: LittleKafka, kfetch: Told) -> None:
    """A micro-batch without a commit runs again, from the end of the one before it."""
    planned(7, offset(kafka, 1, 0))
    planned(8, offset(kafka, 3, 1))
    committed(7)

    assert [1, 0] == positions(planned_by(kfetch))
    assert "micro-batch 8 is planned and not committed" in kfetch("plan", "clicks")[1]


def test_the_first_micro_batch_comes_again(kafka: LittleKafka, kfetch: Told) -> None:
    """Micro-batch 0 has its own start, because Spark does not log it."""
    planned(0, offset(kafka, 3, 1, **{"from": {"clicks": {"0": [1, 0], "1": [0, 0]}}}))

    assert [1, 0] == positions(planned_by(kfetch))


def test_the_end_of_a_planned_micro_batch_must_fit(kafka: LittleKafka, kfetch: Told) -> None:
    """If the log has lost the planned end offset, the next run fails at once."""
    planned(0, offset(kafka, 1, 0))
    planned(1, offset(kafka, 9, 1, epoch=-1))
    committed(0)

    (told,) = planned_by(kfetch, 1)["losses"]
    assert "clicks-0: offset 9 lies past the log end 3" in told


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
    planned(3, offset(kafka, 2, 1, epoch=-1))  # without an epoch nobody knows what has become of it
    kafka.log(T0).truncate(0)


def gone(kafka: LittleKafka) -> None:
    kafka.topics["clicks"].logs.pop()


@pytest.mark.parametrize(
    ("damage", "sentence", "left"),
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
    kfetch: Told,
    damage: Callable[[LittleKafka], None],
    sentence: str,
    left: list[int],
) -> None:
    """What the run would find, the plan tells: it fails, or goes on at what is left."""
    planned(3, offset(kafka, 2, 1))
    committed(3)
    damage(kafka)

    told = planned_by(kfetch, 1)
    assert sentence in told["losses"][0]
    assert f"FAILS: {told['losses'][0]}" in kfetch("plan", "clicks")[1]
    assert "records are gone in" in kfetch("lag")[1]

    job(LENIENT)
    told = planned_by(kfetch)
    assert sentence in told["losses"][0]
    assert left == positions(told)


def test_a_topic_of_many_partitions(kafka: LittleKafka, kfetch: Told) -> None:
    """The plan shows the partitions with most to read, and the number of the others."""
    kafka.create("clicks", 30)[29].append(b"x")
    lines = kfetch("plan", "clicks")[1].splitlines()

    assert ["clicks-29", "2", "0", "to", "1", "0", "1"] == lines[5].split()
    assert "  and 10 more: kfetch lag clicks --partitions shows all" == lines[-2]


def test_lag_of_every_job(
    kafka: LittleKafka, kfetch: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that can't be looked at does not keep the others from it; the exit code tells."""
    monkeypatch.setattr(sources, "LOOKUP_TIMEOUT_S", 2.0)  # with the broker that is away
    planned(3, offset(kafka, 2, 1))
    committed(3)
    other = PROJECT.replace("clusters:", "clusters:\n  away:\n    bootstrap.servers: 127.0.0.1:1")
    Path("conf/kfetch.yml").write_text(other)
    job(JOB.replace("cluster: local", "cluster: away"), "remote")
    code, out, _ = kfetch("lag", "--json")
    clicks, remote = json.loads(out)

    assert (1, 1, 3, None) == (code, clicks["behind"], clicks["committed"], remote["behind"])
    assert "job remote, source source (clicks): " in remote["error"]
    assert (0, 2) == (kfetch("lag", "clicks")[0], kfetch("lag", "click")[0])


def test_lag_of_every_partition(kafka: LittleKafka, kfetch: Told) -> None:
    """``lag --partitions`` shows the lag of each partition."""
    planned(3, offset(kafka, 2, 1))
    committed(3)
    (told,) = json.loads(kfetch("lag", "--partitions", "--json")[1])

    assert [("clicks", 0, 2, 3, 1), ("clicks", 1, 1, 1, 0)] == [
        tuple(each[key] for key in ("topic", "partition", "position", "log_end", "behind"))
        for each in told["partitions"]
    ]
    assert [["clicks", "clicks-0", "2", "3", "1"], ["clicks", "clicks-1", "1", "1", "0"]] == [
        line.split() for line in kfetch("lag", "--partitions")[1].splitlines()[1:]
    ]


def test_a_partition_without_a_leader(kafka: LittleKafka, kfetch: Told) -> None:
    """The reports name a partition without a leader, and count the others."""
    planned(3, offset(kafka, 2, 0))
    committed(3)
    kafka.elect(T0, None)

    told = planned_by(kfetch, 1)
    assert (["clicks-0"], 1) == (told["leaderless"], told["behind"])
    assert "1 partition has no leader, clicks-0 first" in kfetch("lag")[1]


TWO = """\
sources:
  clicks: {cluster: local, subscribe: clicks}
  users: {cluster: local, subscribe: users}
transform:
  sql: SELECT * FROM clicks
sink:
  path: t
trigger: availableNow
"""


def test_sources_are_told_apart_by_their_topics(kafka: LittleKafka, kfetch: Told) -> None:
    """Spark numbers sources in the order of its plan, not of the file. Topics identify them."""
    kafka.create("users")[0].append(b"u")
    job(TWO)
    planned(0, {"users": {"0": 1}}, offset(kafka, 2, 1))
    committed(0)
    told = planned_by(kfetch)

    assert {"clicks": 1, "users": 0} == {
        each["view"]: sum(p["behind"] for p in each["partitions"]) for each in told["sources"]
    }


def test_sources_that_can_not_be_told_apart(kafka: LittleKafka, kfetch: Told) -> None:
    """Two views of one topic are an error: a guess could be wrong."""
    job(TWO.replace("subscribe: users", "subscribe: clicks"))
    planned(0, offset(kafka, 1, 1), offset(kafka, 2, 1))
    code, _, said = kfetch("plan", "clicks")

    assert 1 == code
    assert "kfetch can't match views and offsets; kfetch offsets show clicks prints all" in said
