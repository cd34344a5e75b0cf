"""The environment and the Kafka cluster of a checkpoint: runs note them, and all compare."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints.origin import note_run, noted_topic_ids
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.run.start_checks import check_new_query, check_origin
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, files, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB

NOTE = Path(f"{CHECKPOINT}.origin.json")
COMMANDS = [
    ("plan", "clicks"),
    ("lag", "clicks"),
    ("offsets", "reset", "clicks", "--to-earliest", "--execute"),
    ("offsets", "replay", "clicks", "--to-earliest", "--execute"),
]
LOCAL_COMMANDS = [("offsets", "show", "clicks"), ("offsets", "undo", "clicks", "--execute")]


@pytest.fixture
def production(project: Path) -> None:
    """The project has an environment."""
    (project / "conf" / "env").mkdir()
    (project / "conf" / "env" / "prod.yml").write_text("concurrency: 2\n")


def the_job(environment: str | None = None) -> Job:
    return config.load(config.find(Path.cwd()), environment=environment).job("clicks")


def text(printed: str) -> str:
    """The printed text without the folds of a table."""
    return " ".join(printed.split())


@pytest.mark.parametrize("command", COMMANDS + LOCAL_COMMANDS, ids=" ".join)
def test_a_command_of_another_environment(
    kafka: LittleKafka, kfetch: Command, production: None, command: tuple[str, ...]
) -> None:
    """Each command refuses with the option to add, and changes nothing."""
    assert check_origin(the_job("prod"))
    before = files()

    code, out, said = kfetch(*command)
    assert code in (1, 2)
    assert (
        "job clicks has run with the environment prod, and this is no environment: add --env "
        in (out + said)
    )
    assert before == files()
    plan = [word for word in command if word != "--execute"]
    assert 0 == kfetch(*plan, "--env", "prod")[0] or plan[1] == "undo"


def test_a_run_of_another_environment(kafka: LittleKafka, production: None) -> None:
    """The run refuses. The way out is the option, or to delete two keys of the note."""
    check_origin(the_job())
    way_out = (
        "the environment prod: leave out --env, KFETCH_ENV and environment in conf/kfetch.yml;"
    )
    with pytest.raises(ConfigError, match=f"{way_out} .* delete the keys"):
        check_origin(the_job("prod"))

    delete_keys()
    assert check_origin(the_job("prod"))
    assert "prod" == json.loads(NOTE.read_text())["environment"]


def delete_keys() -> None:
    """What the errors tell a user whose job moved for good."""
    note = json.loads(NOTE.read_text())
    del note["environment"], note["clusters"]
    NOTE.write_text(json.dumps(note))


@pytest.mark.parametrize("lacks", ["environment", "clusters"])
def test_a_note_without_one_of_its_keys(kafka: LittleKafka, lacks: str) -> None:
    """What it lacks is not compared, and the next run writes it again."""
    check_origin(the_job())
    note = json.loads(NOTE.read_text())
    NOTE.write_text(json.dumps({key: value for key, value in note.items() if key != lacks}))

    assert check_origin(the_job())
    assert note == json.loads(NOTE.read_text())


def test_what_stays_in_a_note(kafka: LittleKafka) -> None:
    """The topics that the job has read stay, for a replay, and that the job has run."""
    check_origin(the_job())
    note_run(the_job(), {"clicks": frozenset({"aa"})})
    delete_keys()
    check_origin(the_job())

    assert "aa" in noted_topic_ids(the_job())["clicks"]
    assert json.loads(NOTE.read_text())["ran"]


def test_a_note_is_on_the_disk_when_the_run_starts(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a power cut leaves no empty note, which would stop the job."""
    synced: list[Path] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink())
    )
    check_origin(the_job())

    file, directory = synced
    assert file.name.startswith(f".{NOTE.name}.")
    assert NOTE.resolve().parent == directory


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_at_another_cluster(
    kafka: LittleKafka, kfetch: Command, command: tuple[str, ...]
) -> None:
    """Each command that asks Kafka refuses with both clusters, and changes nothing."""
    check_origin(the_job())
    before, kafka.cluster_id = files(), "other"

    code, out, said = kfetch(*command)
    assert code in (1, 2)
    sentence = "its checkpoint has offsets of the Kafka cluster little, and 127.0.0.1:"
    assert sentence in text(out + said)
    assert "is the cluster other: check --env and bootstrap.servers" in text(out + said)
    assert before == files()


def test_a_run_at_another_cluster(kafka: LittleKafka) -> None:
    """A checkpoint without a note gets one from its next run. From then on, the run compares. Every
    user may read the note, which has no secret: ``lag`` of another user compares too."""
    assert not NOTE.exists()
    assert check_origin(the_job())
    note = json.loads(NOTE.read_text())
    assert (None, {"source": "little"}) == (note["environment"], note["clusters"])
    assert 0o644 == NOTE.stat().st_mode & 0o777

    kafka.cluster_id = "other"
    with pytest.raises(ConfigError) as refused:
        check_origin(the_job())
    assert "of the Kafka cluster little, and 127.0.0.1:" in refused.value.message
    way_out = "the offsets are right in this cluster, delete the keys environment and clusters in"
    assert way_out in refused.value.message
    assert note == json.loads(NOTE.read_text())


def forget_checkpoint(kafka: LittleKafka) -> None:
    for file in files():
        Path(file).unlink()


def another_checkpoint(kafka: LittleKafka) -> None:
    job(JOB + "checkpoint: wasbs://name/y\n")


def without_id(kafka: LittleKafka) -> None:
    kafka.cluster_id = ""


@pytest.mark.parametrize("change", [forget_checkpoint, another_checkpoint, without_id])
def test_nothing_to_compare(kafka: LittleKafka, change: Callable[[LittleKafka], None]) -> None:
    """A note about a checkpoint that is no more does not count, and brokers may have no id."""
    if change is another_checkpoint:
        job(JOB + "checkpoint: wasbs://name/x\n")
    check_origin(the_job())
    kafka.cluster_id = "other"
    change(kafka)

    assert check_origin(the_job())


def test_brokers_that_do_not_answer(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run starts, because its query waits for them, and the log says what was not compared."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")

    assert not check_origin(the_job())
    assert "kfetch could not compare the Kafka cluster: " in caplog.text
    assert not NOTE.exists()


def test_a_damaged_note(kafka: LittleKafka, kfetch: Command) -> None:
    """One sentence names the file and what to do."""
    NOTE.write_text("{")
    with pytest.raises(JobsError, match=r"origin\.json can't be used .*: remove it, and the job's"):
        check_origin(the_job())


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        ("viewfs://name", "viewfs://name"),
        ("hdfs://user:pa55word@host", "another file system"),
        ("s3a://AKIAX:pa55word@lake", "another file system"),
    ],
)
def test_keys_in_the_configuration_of_hadoop(
    project: Path, monkeypatch: pytest.MonkeyPatch, default: str, shown: str
) -> None:
    """A run that finds another default file system there names it, but shows no keys."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:9092")
    hadoop = SimpleNamespace(get=lambda _: default)
    spark: Any = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop))

    with pytest.raises(ConfigError, match=f"paths without a scheme on {shown}, and the"):
        check_new_query(spark, the_job())
