"""A renamed job without its checkpoint does not write every row twice."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints import origin
from kfetch_jobs.checkpoints.fresh_start import check_fresh_start, check_queries
from kfetch_jobs.checkpoints.origin import note_origin, note_run
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.progress.reports import Pulse, write_pulse
from kfetch_jobs.run import run
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.commands import Command

QUERY = "5c3f0d52-7d64-44a2-9a3e-2a8d1f0b6c11"
NOTE = Path("data/clicks/checkpoint.origin.json")


def the_job(name: str = "visits") -> Job:
    return config.load(config.find(Path.cwd())).job(name)


def table(query: str | None = QUERY) -> None:
    """Write the log of the job's table, with one commit of a query, or of none."""
    log = Path("data/clicks/table/_delta_log")
    log.mkdir(parents=True)
    action = (
        {"txn": {"appId": query, "version": 7, "lastUpdated": 1}} if query else {"commitInfo": {}}
    )
    (log / f"{7:020}.json").write_text(json.dumps(action, separators=(",", ":")))


def rename(file: Path = Path("conf/jobs/clicks.yml")) -> None:
    os.rename(file, file.with_name("visits.yml"))


@pytest.fixture(params=["note", "table"])
def renamed(kafka: LittleKafka, request: pytest.FixtureRequest) -> None:
    """A job that has run is renamed. Its note names its table, or only the table names its query,
    as after runs of an earlier kfetch."""
    Path("data/clicks/checkpoint/metadata").write_text(json.dumps({"id": QUERY}))
    table(QUERY if request.param == "table" else None)
    note_origin(the_job("clicks"), {})
    if request.param == "table":
        note = json.loads(NOTE.read_text())
        del note["tables"], note["topics"]
        NOTE.write_text(json.dumps(note))
    rename()


@pytest.mark.usefixtures("renamed")
def test_the_new_name_is_refused(kfetch: Command) -> None:
    """``run`` refuses before anything starts, and ``plan`` exits with 1. Both name the steps."""
    with pytest.raises(ConfigError) as caught:
        run(the_job(), lambda _: None)
    code, out, _ = kfetch("plan", "visits")
    told = json.loads(kfetch("plan", "visits", "--json")[1])

    directory = Path.cwd() / "data"
    assert (
        f"rename {directory}/clicks to {directory}/visits; to read the topic again nevertheless, "
        "set sink.repeatRows: true in the job's file"
    ) in caught.value.message
    assert "job clicks, whose file is gone, has written topic clicks" in caught.value.message
    assert (1, True) == (code, f"FAILS: {caught.value.message.partition(' [')[0]}" in out)
    assert (False, True) == (told["fits"], told["refusal"] in caught.value.message)


@pytest.mark.usefixtures("renamed")
def test_another_text_of_the_same_table() -> None:
    """The new job is refused, too, if it names the table by a URI."""
    file = Path("conf/jobs/visits.yml")
    text = file.read_text().replace(
        "path: ${storage}/clicks/table", f"path: 'file:{Path.cwd()}/data/clicks/table'"
    )
    assert "file:" in text
    file.write_text(text)

    with pytest.raises(ConfigError, match="has written topic clicks to the same table file:"):
        check_fresh_start(the_job())


@pytest.mark.usefixtures("renamed")
def test_the_steps_of_a_rename(kfetch: Command) -> None:
    """With the old directory under the new name, the job continues."""
    os.rename("data/clicks", "data/visits")

    check_fresh_start(the_job())
    assert "continues from its checkpoint" in kfetch("plan", "visits")[1]


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("format: delta\n", "format: delta\n  repeatRows: true\n"),
        ("format: delta\n", "format: delta\n  mode: merge\n  keys: [partition, offset]\n"),
        ("${storage}/clicks/table", "${storage}/visits/table"),
        ("subscribe: clicks", "subscribe: visits"),
        ("sink:\n", "checkpoint: ${storage}/clicks/checkpoint\nsink:\n"),
    ],
    ids=["allowed", "a merge", "another table", "another topic", "the same checkpoint"],
)
def test_jobs_that_may_start(old: str, new: str) -> None:
    """Rows come twice only in the same append table, from the same topic, by a new checkpoint."""
    file = Path("conf/jobs/visits.yml")
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))

    check_fresh_start(the_job())


@pytest.mark.usefixtures("renamed")
def test_a_table_that_is_gone() -> None:
    """Without the table there is nothing to double."""
    os.rename("data/clicks/table", "data/elsewhere")

    check_fresh_start(the_job())


@pytest.mark.usefixtures("renamed")
def test_a_job_with_a_file() -> None:
    """Jobs of the project may share a topic and a table, with different transforms."""
    Path("conf/jobs/clicks.yml").write_text(Path("conf/jobs/visits.yml").read_text())

    check_fresh_start(the_job())


def ran(kafka: LittleKafka, *edits: tuple[str, str]) -> None:
    """Leave what a run of the job ``clicks`` leaves, after edits of its file."""
    file = Path("conf/jobs/clicks.yml")
    text = file.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    job, local = the_job("clicks"), Path("data/clicks/checkpoint")
    (local / "metadata").write_text(json.dumps({"id": QUERY}))
    if job.checkpoint != str(local.absolute()):
        elsewhere = Path("conf/ck/clicks")  # of a store, this host has only the copy of the note
        elsewhere.parent.mkdir()
        os.rename(local, elsewhere)
    note_origin(job, {})
    note_run(job, {"clicks": frozenset({kafka.topics["clicks"].topic_id.hex})})
    write_pulse(job.directory, Pulse(at=time.time(), batch=0, query=QUERY))
    table()


@pytest.mark.parametrize("new", ["checkpoint: ck/visits\n", ""], ids=["renamed", "dropped"])
def test_an_explicit_checkpoint(kafka: LittleKafka, new: str) -> None:
    """Its note lies beside it, where nobody looks after a rename. The table's log tells."""
    old = "checkpoint: ck/clicks\n"
    ran(kafka, ("sink:\n", f"{old}sink:\n"))
    rename()
    file = Path("conf/jobs/visits.yml")
    file.write_text(file.read_text().replace(old, new))

    with pytest.raises(ConfigError, match="name its checkpoint in this job's file"):
        check_fresh_start(the_job())
    assert "job clicks, whose file is gone" in check_queries(the_job(), the_job().target, {QUERY})


def test_a_pattern_with_a_checkpoint_in_a_store(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern names no topics, but the note has the ids of those that it matched."""
    monkeypatch.setattr(origin, "stored_note", lambda _: None)
    old = "checkpoint: s3a://lake/clicks\n"
    ran(kafka, ("sink:\n", f"{old}sink:\n"), ("subscribe: clicks", "subscribePattern: cli.*"))
    rename()
    file = Path("conf/jobs/visits.yml")
    file.write_text(file.read_text().replace(old, "checkpoint: s3a://lake/visits\n"))

    with pytest.raises(ConfigError, match="written topic clicks to the same table"):
        check_fresh_start(the_job())


def test_a_moved_project(
    kafka: LittleKafka, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note has the table's path of before. The table's log still tells."""
    ran(kafka)
    rename()
    os.rename(project, project.with_name("moved"))
    monkeypatch.chdir(project.with_name("moved"))

    with pytest.raises(ConfigError, match="written topic clicks to the same table"):
        check_fresh_start(the_job())


@pytest.mark.parametrize("value", ["false", "no"])
def test_a_disabled_job(kafka: LittleKafka, value: str) -> None:
    """A file that is copied to a new name, and disabled under the old one, is a rename too. If it
    came back to life after the rename, it would start anew, so its file goes first."""
    ran(kafka)
    file = Path("conf/jobs/clicks.yml")
    file.with_name("visits.yml").write_text(file.read_text())
    check_fresh_start(the_job())
    file.write_text(f"enabled: {value}\n{file.read_text()}")

    with pytest.raises(
        ConfigError, match="job clicks, whose file is disabled, has written topic"
    ) as caught:
        check_fresh_start(the_job())
    directory = Path.cwd() / "data"
    assert (
        "stop it (kfetch stop clicks), delete conf/jobs/clicks.yml, and "
        f"rename {directory}/clicks to {directory}/visits; "
    ) in caught.value.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("transform:\n  sql: SELECT *", "transform:\n  sql: SELECT key"),
        ("transform:\n  sql: SELECT * FROM source\n", "transform: shop:visits\n"),
        ("transform:\n  sql: SELECT * FROM source\n", ""),
    ],
    ids=["another query", "a function", "none"],
)
def test_a_disabled_job_with_another_transform(kafka: LittleKafka, old: str, new: str) -> None:
    """It may have written other rows of the topic, so it is no former job."""
    ran(kafka)
    file = Path("conf/jobs/clicks.yml")
    text = file.read_text()
    file.with_name("visits.yml").write_text(text)
    assert old in text
    file.write_text("enabled: false\n" + text.replace(old, new))

    check_fresh_start(the_job())


def test_a_job_that_never_ran(kafka_of_new_job: LittleKafka) -> None:
    """A run that planned nothing notes its tables too, and has written no rows."""
    note_origin(the_job("clicks"), {})
    table(None)
    rename()

    check_fresh_start(the_job())
