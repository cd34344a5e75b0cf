"""The verbs ``kfetch checkpoint show``, ``verify`` and ``to-kafka``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kfetch.admin import agents
from kfetch.storage.lease_holder import take
from kfetch.storage.open import lease_beside
from kfetch.storage.processes import this_process
from tests.kfetch.admin.checkpoints import ID, QUERY, commit, initial, ours, plan, theirs
from tests.kfetch.wire.little import LittleKafka
from tests.store import Store

Kfetch = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture
def checkpoint(kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch) -> Kfetch:
    """Runs ``kfetch checkpoint``: exit code, stdout, stderr."""
    monkeypatch.setattr(agents, "find", lambda: [])
    return lambda *words: kfetch("checkpoint", *map(str, words))


def test_show_a_checkpoint(checkpoint: Kfetch, tmp_path: Path) -> None:
    """Sources, offsets, epochs, ids, partitions that left, and what the next start does."""
    left = {"views": {"id": ID, "partitions": {"0": [88, 3, 1795335036]}}}
    plan(tmp_path, 6, ours(3, 3), "-", theirs(1, topic="users"))
    plan(tmp_path, 7, ours(5, 3, left=left), "-", theirs(2, topic="users"))
    commit(tmp_path, 6)

    code, out, err = checkpoint("show", tmp_path)

    assert (0, "") == (code, err)
    assert [
        f"checkpoint {tmp_path}, query {QUERY}",
        "last micro-batch: 7, planned 2026-11-22 08:10:36Z, not done: the next start runs it again",
        "source 0: offsets of kfetch",
        f"  clicks, id {ID}, 2 partitions",
        "    0: 3 to 5, epoch 3",
        "    1: 3, epoch 3",
        f"  left: views-0 at 88, id {ID}, 2026-11-22 08:10:36Z",
        "source 1: no offset yet",
        "source 2: offsets of Spark's Kafka connector",
        "  users, no id, 1 partition",
        "    0: 1 to 2",
    ] == out.splitlines()[:-2]
    assert f"run kfetch checkpoint to-kafka {tmp_path}" in out.splitlines()[-1]


def test_show_as_json(checkpoint: Kfetch, tmp_path: Path) -> None:
    """The JSON has every partition, with the start and the end of the batch."""
    plan(tmp_path, 6, theirs(3, 3))
    plan(tmp_path, 7, ours(5, 3))
    commit(tmp_path, 6)

    told = json.loads(checkpoint("show", tmp_path, "--json")[1])

    assert (7, 6, True, QUERY) == tuple(
        told[key] for key in ("planned", "committed", "pending", "query")
    )
    (source,) = told["sources"]
    assert ("kfetch", {"clicks": ID}) == (source["writer"], source["topic_ids"])
    assert [(0, 3, 5, 3), (1, 3, 3, 3)] == [
        (each["partition"], each["start"], each["end"], each["leader_epoch"])
        for each in source["partitions"]
    ]


def test_who_holds_it(checkpoint: Kfetch, tmp_path: Path) -> None:
    """Process, host, purpose and time of the run that holds it; nobody behind its end."""
    path = tmp_path / "ck"
    plan(path, 7, ours(5, 3))
    commit(path, 7)
    me = this_process("run of job clicks")
    with take(lease_beside(path), me):
        line = checkpoint("show", path)[1].splitlines()[1]
        lease = json.loads(checkpoint("show", path, "--json")[1])["lease"]

    assert line.startswith(
        f"held by process {me.pid} on host {me.host} (run of job clicks) since 20"
    )
    assert (1, me.host, me.pid) == (lease["epoch"], lease["host"], lease["pid"])
    assert checkpoint("show", path)[1].splitlines()[1].startswith("held by nobody since 20")


def test_a_checkpoint_in_a_store(checkpoint: Kfetch, tmp_path: Path, store: Store) -> None:
    """``show`` prints the same lines. The keys are in a file of Spark's settings."""
    plan(tmp_path, 7, ours(5, 3))
    commit(tmp_path, 7)
    copy = store.upload(tmp_path)
    properties = tmp_path / "spark-defaults.conf"
    lines = (f"{name}   {value}\n" for name, value in store.settings.items())
    properties.write_text("# a store of the test\n" + "".join(lines))

    here = checkpoint("show", tmp_path)[1]
    code, there, err = checkpoint("show", copy, "--spark-properties", properties)

    assert (0, "") == (code, err)
    assert here.replace(str(tmp_path), str(copy)) == there


def test_many_partitions_are_counted(checkpoint: Kfetch, tmp_path: Path) -> None:
    """Ten of each topic are listed, and ``--all`` lists every one."""
    plan(tmp_path, 0, ours(*range(25)))
    commit(tmp_path, 0)

    brief = checkpoint("show", tmp_path)[1]
    whole = checkpoint("show", tmp_path, "--all")[1]

    assert "    9: 9, epoch 3\n    and 15 more; --all lists them" in brief
    assert "10: 10" not in brief
    assert "    24: 24, epoch 3" in whole


@pytest.mark.parametrize("is_planned", [False, True])
def test_a_start_that_only_the_connector_knows(
    checkpoint: Kfetch, tmp_path: Path, is_planned: bool
) -> None:
    """kfetch can't see ``sources/0/0``, so ``show`` prints the option that starts it there."""
    initial(tmp_path, "0", theirs(4, 5))
    if is_planned:
        plan(tmp_path, 0, theirs(8, 9))

    out = checkpoint("show", tmp_path)[1]

    assert f"startingOffsets={theirs(4, 5)}" in out


def test_a_source_that_had_no_partition(checkpoint: Kfetch, tmp_path: Path) -> None:
    """The connector reads partitions that appear later from their beginning. So must kfetch."""
    plan(tmp_path, 0, theirs(4), "-")
    commit(tmp_path, 0)
    initial(tmp_path, "0", theirs(1))
    initial(tmp_path, "1", "{}")

    told = json.loads(checkpoint("show", tmp_path, "--json")[1])["next"]

    assert 1 == len([line for line in told if "startingOffsets" in line])
    assert told[-1].startswith("Source 1: ")
    assert told[-1].endswith("startingOffsets=earliest")


def test_damage_is_one_line(checkpoint: Kfetch, tmp_path: Path) -> None:
    """The file, what is wrong, what to do, and the code."""
    plan(tmp_path, 0, text="v1\n{}\n{broken")

    code, out, err = checkpoint("show", tmp_path)

    assert (1, "") == (code, out)
    assert 1 == len(err.splitlines())
    assert err.startswith(f"kfetch: the checkpoint's {tmp_path}/offsets/0 is no plan")
    assert err.endswith("[CHECKPOINT_UNUSABLE]\n")


def test_verify_exits_with_1_for_a_finding(checkpoint: Kfetch, tmp_path: Path) -> None:
    """Lines for people and JSON have the same findings."""
    with LittleKafka() as kafka:
        kafka.create("clicks", 1)[0].append(b"a", b"b")
        plan(tmp_path, 0, theirs(2))
        commit(tmp_path, 0)
        servers = ("--option", f"kafka.bootstrap.servers={kafka.bootstrap}")
        sound = checkpoint("verify", tmp_path, *servers)
        plan(tmp_path, 0, theirs(9))
        code, out, err = checkpoint("verify", tmp_path, *servers)
        told = json.loads(checkpoint("verify", tmp_path, *servers, "--json")[1])

    assert (0, "") == (sound[0], sound[2])
    assert "source 0: 1 partition, 0 offsets behind the log ends, fits the logs" in sound[1]
    assert 1 == code
    assert "clicks-0: offset 9 lies past the log end 2" in out
    assert "does not fit the logs in Kafka (1 finding)" in err
    assert err.endswith("[CHECKPOINT_MISMATCH]\n")
    assert "OFFSET_BEYOND_LOG" == told["sources"][0]["findings"][0]["code"]


def test_verify_exits_with_1_for_an_unfinished_first_batch(
    checkpoint: Kfetch, tmp_path: Path
) -> None:
    """kfetch refuses this start of a query. With the option that the finding names it starts."""
    plan(tmp_path, 0, theirs(2))
    initial(tmp_path, "0", theirs(1))
    with LittleKafka() as kafka:
        kafka.create("clicks", 1)[0].append(b"a", b"b")
        servers = ("--option", f"kafka.bootstrap.servers={kafka.bootstrap}")
        code, out, _ = checkpoint("verify", tmp_path, *servers)
        option = out.splitlines()[1].split()[-2]
        again = checkpoint("verify", tmp_path, *servers, "--option", option)

    assert (1, f"startingOffsets={theirs(1)}") == (code, option)
    assert (0, "") == (again[0], again[2])


def test_options_from_a_file(checkpoint: Kfetch, tmp_path: Path) -> None:
    """The file has the form that ``kfetch check`` takes. ``--option`` wins over it."""
    file = tmp_path / "client.properties"
    file.write_text("# of the query\n\nbootstrap.servers : 127.0.0.1:1\nkfetch.agent=inline\n")
    plan(tmp_path, 0, theirs(2))
    commit(tmp_path, 0)

    with LittleKafka() as kafka:
        kafka.create("clicks", 1)[0].append(b"a", b"b")
        servers = f"kafka.bootstrap.servers={kafka.bootstrap}"
        options = ("--option", servers, "--option", "subscribe=clicks")
        code, _, err = checkpoint("verify", tmp_path, "--properties", file, *options)

    assert (0, "") == (code, err)


@pytest.mark.parametrize("verb", ["show", "verify", "to-kafka"])
@pytest.mark.parametrize(
    "location",
    [
        "s3a://AKIAX:pa55word@lake/ck",
        "s3a:AKIAX:pa55word@lake/ck",
        "hdfs://user:pa55word@127.0.0.1:1/ck",
        "viewfs://user:pa55word@name/ck",
        "hdfs:/ck",
    ],
)
def test_errors_show_no_keys(checkpoint: Kfetch, tmp_path: Path, verb: str, location: str) -> None:
    """Neither keys in the typed location nor those in the default file system."""
    properties = tmp_path / "spark.conf"
    properties.write_text("spark.hadoop.fs.defaultFS hdfs://user:pa55word@127.0.0.1:1\n")
    more = () if verb == "to-kafka" else ("--spark-properties", properties)
    code, out, err = checkpoint(verb, location, *more)

    assert (True, "") == (code > 0, out)
    assert "pa55word" not in err
    assert "no access keys" in err or location == "hdfs:/ck"


@pytest.mark.parametrize("option", ["hunter2", "kafka.sasl.password=hunter2"])
def test_secrets_are_no_arguments(checkpoint: Kfetch, tmp_path: Path, option: str) -> None:
    """A password, with its name or without, is refused and not shown."""
    plan(tmp_path, 0, theirs(2))

    code, out, err = checkpoint("verify", tmp_path, "--option", option)

    assert 2 == code
    assert "hunter2" not in out + err
    assert "--option" in err


def test_to_kafka_and_back(checkpoint: Kfetch, tmp_path: Path) -> None:
    """The command names the backup, the files and what to change; then ``show`` sees both ways."""
    path = tmp_path / "checkpoint"
    left = {"views": {"id": ID, "partitions": {"0": [88, 3, 9]}}}
    plan(path, 0, ours(5, left=left))
    commit(path, 0)

    code, out, err = checkpoint("to-kafka", path)

    assert (0, "") == (code, err)
    assert f"backup: {path}.backups/" in out
    assert f"written: {path}/offsets/0" in out
    assert "note: views left the query (1 partition). The connector does not keep" in out
    assert 'Source 0: change format("kfetch") to format("kafka")' in out
    assert theirs(5) == (path / "offsets/0").read_text().splitlines()[-1]
    shown = checkpoint("show", path)[1]
    assert 'The next start with format("kfetch") or format("kafka") continues here.' in shown
    assert [] == json.loads(checkpoint("to-kafka", path, "--json")[1])["files"]


def test_to_kafka_refuses_a_query_that_may_run(checkpoint: Kfetch, tmp_path: Path) -> None:
    """A checkpoint of a second ago needs ``--force``."""
    path = tmp_path / "checkpoint"
    file = plan(path, 0, ours(5))
    commit(path, 0)
    file.touch()

    code, _, err = checkpoint("to-kafka", path)
    forced = checkpoint("to-kafka", path, "--force", "--json")

    assert 1 == code
    assert err.endswith("[CHECKPOINT_IN_USE]\n")
    assert [str(file)] == json.loads(forced[1])["files"]
