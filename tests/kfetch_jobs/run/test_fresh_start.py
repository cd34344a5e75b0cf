"""A job that has run before does not start anew without a word if its checkpoint is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints.fresh_start import fresh_start_refusal
from kfetch_jobs.checkpoints.origin import note_origin
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.run import run
from kfetch_jobs.run.query_recorder import QueryRecorder
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import JOB, PROJECT

QUERY = "5c3f0d52-7d64-44a2-9a3e-2a8d1f0b6c11"
NOTE = Path(f"{CHECKPOINT}.origin.json")
FILE = Path("conf/jobs/clicks.yml")
LETTERS = """\
  deadLetters: {path: ../letters}
"""


def the_job() -> Job:
    return config.load(config.find(Path.cwd())).job("clicks")


def written(table: str, query: str = QUERY) -> None:
    """Write the log of a table with one micro-batch of a query."""
    log = Path(table, "_delta_log")
    log.mkdir(parents=True)
    actions = [{"commitInfo": {}}, {"txn": {"appId": query, "version": 7}}, {"add": {}}]
    (log / f"{7:020}.json").write_text("\n".join(json.dumps(one) for one in actions))


@pytest.fixture
def lost(kafka: LittleKafka) -> None:
    """The job has run, and its checkpoint is lost. The note beside it is still there."""
    note_origin(the_job(), {})
    shutil.rmtree(CHECKPOINT)


@pytest.fixture
def moved(kafka: LittleKafka, project: Path) -> None:
    """The job has run, and its table is at a fixed path. The project's storage is another now."""
    job(JOB.replace("${storage}/clicks/table", "../lake"))
    written("lake")
    (project / "conf" / "kfetch.yml").write_text(PROJECT.replace("../data", "../new"))


@pytest.fixture(params=["lost", "moved"])
def gone(request: pytest.FixtureRequest) -> str:
    """A part of the sentence that names the trace of the earlier runs."""
    request.getfixturevalue(request.param)
    table = Path.cwd() / "lake"
    return {
        "lost": f"the note in {Path.cwd() / NOTE} tells of its earlier runs: ",
        "moved": f"its table {table} has rows of a query that this storage lacks: ",
    }[str(request.param)]


def test_all_refuse(gone: str, kfetch: Command) -> None:
    """``run``, ``plan``, ``validate`` and the supervisor name the trace and the key to set."""
    with pytest.raises(ConfigError) as caught:
        run(the_job(), lambda _: None)
    sentence = caught.value.mistakes[0]
    refused = f"job clicks has no offsets in its checkpoint {the_job().checkpoint}, but {gone}"
    assert sentence.startswith(refused)
    assert sentence.endswith("set sink.repeatRows: true in the job's file")

    assert sentence == fresh_start_refusal(the_job())
    code, out, _ = kfetch("plan", "clicks")
    assert (1, True) == (code, f"FAILS: {sentence}" in out)
    code, out, said = kfetch("validate")
    assert (2, f"kfetch: {sentence}\n") == (code, said)
    assert sentence in json.loads(kfetch("validate", "--json")[1])["mistakes"]
    assert sentence in str(kfetch("status", "--json")[1])


def test_a_wanted_new_start(gone: str, kfetch: Command) -> None:
    """With the key, the job may start. ``kfetch validate`` has no mistake."""
    FILE.write_text(FILE.read_text().replace("  path:", "  repeatRows: true\n  path:"))

    assert "" == fresh_start_refusal(the_job())
    assert 0 == kfetch("validate")[0]


@pytest.mark.usefixtures("moved")
def test_a_disabled_job(kfetch: Command) -> None:
    """Nothing starts it, so ``kfetch validate`` has no mistake."""
    FILE.write_text(f"enabled: false\n{FILE.read_text()}")

    assert 0 == kfetch("validate")[0]


@pytest.mark.parametrize("trace", ["target", "merge", "letters"])
def test_each_table_counts(kafka_of_new_job: LittleKafka, trace: str) -> None:
    """A merge would skip records too, and dead letters would come twice."""
    if trace == "letters":
        options = "  options:\n    startingOffsets: earliest\n    includeHeaders: true\n"
        typed = JOB.replace(options, "  decode: {fields: a INT}\n")
        job(typed.replace("  path: ${storage}/clicks/table\n", f"  path: ../lake\n{LETTERS}"))
    else:
        mode = "  mode: merge\n  keys: [partition, offset]\n" if trace == "merge" else ""
        job(JOB.replace("  path: ${storage}/clicks/table\n", f"{mode}  path: ../lake\n"))
    assert "" == fresh_start_refusal(the_job())
    name = "letters" if trace == "letters" else "lake"
    written(name)

    assert f"its table {Path.cwd() / name} has rows" in fresh_start_refusal(the_job())


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize("known", ["metadata", "pulse"])
def test_a_table_of_other_jobs(known: str) -> None:
    """A query of another job in this storage may write to the same table."""
    job(JOB, "visits")
    other = Path("new/visits")
    (other / "checkpoint").mkdir(parents=True)
    if known == "metadata":
        (other / "checkpoint" / "metadata").write_text(json.dumps({"id": QUERY}))
    else:
        (other / "pulse.json").write_text(json.dumps({"at": 1.0, "batch": 1, "query": QUERY}))

    assert "" == fresh_start_refusal(the_job())


def test_a_run_that_planned_nothing(kafka_of_new_job: LittleKafka) -> None:
    """Its note is no trace of offsets, so the next run may start."""
    note_origin(the_job(), {})
    note_origin(the_job(), {})

    assert "" == fresh_start_refusal(the_job())


def test_a_committed_batch_is_noted(kafka_of_new_job: LittleKafka) -> None:
    """A run of many days notes its first micro-batch, not only its start."""
    note_origin(the_job(), {})
    recorder = QueryRecorder(the_job(), lambda _: None)
    recorder.record_progress(TOLD | {"runId": "1", "id": "2"})

    assert f"{NOTE} tells of its earlier runs" in fresh_start_refusal(the_job())
    note_origin(the_job(), {})
    assert f"{NOTE} tells of its earlier runs" in fresh_start_refusal(the_job())


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize("progress", [True, False])
def test_a_note_of_an_older_version(progress: bool) -> None:
    """It says nothing about offsets. Then the job's micro-batches tell."""
    note = json.loads(NOTE.read_text())
    assert note.pop("ran") is True
    NOTE.write_text(json.dumps(note))
    if progress:
        append_entry(the_job().directory, a_batch())

    assert progress == bool(fresh_start_refusal(the_job()))


def test_another_checkpoint_and_table(kafka_of_new_job: LittleKafka) -> None:
    """The job's files name new places, and nobody has copied anything there. Its progress tells."""
    the_job().directory.mkdir(parents=True)
    append_entry(the_job().directory, a_batch())
    job(JOB.replace("${storage}/clicks/table", "../new") + "checkpoint: ../ck\n")

    refusal = fresh_start_refusal(the_job())
    assert f"{the_job().directory} tells of its earlier runs: a new start would skip" in refusal


@pytest.mark.usefixtures("moved")
def test_a_checkpoint_elsewhere() -> None:
    """Only Spark can see whether it has offsets, so the files alone refuse nothing."""
    FILE.write_text(FILE.read_text() + "checkpoint: s3a://bucket/ck\n")

    assert "" == fresh_start_refusal(the_job())


def a_batch() -> Batch:
    return Batch(
        batch=0, started="2026-11-23T10:00:00Z", finished=1.0, rows=1, seconds=1.0, end=1, latest=1
    )


def test_an_unreadable_checkpoint_does_not_count_as_none(kafka: LittleKafka) -> None:
    """The job does not start anew if the system refuses to list its offsets. The sentence names
    the directory."""
    offsets = CHECKPOINT / "offsets"
    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    offsets.parent.mkdir(parents=True)
    offsets.symlink_to("offsets")  # root may read any directory, and cannot follow a circle

    refusal = fresh_start_refusal(the_job())
    assert f"kfetch can't read {CHECKPOINT.resolve() / 'offsets'}" in refusal
    assert "[" not in refusal


def test_a_damaged_log_of_the_table(kafka_of_new_job: LittleKafka) -> None:
    """A half-written checkpoint of the table's log is a refusal, and no end of the supervisor."""
    written("data/clicks/table")
    (Path("data/clicks/table/_delta_log") / f"{9:020}.checkpoint.parquet").write_bytes(b"half")

    assert "9.checkpoint.parquet is damaged" in fresh_start_refusal(the_job())


@pytest.mark.usefixtures("moved")
def test_an_unreadable_checkpoint_of_a_job_with_other_tables() -> None:
    """Only former jobs with a table of this one matter, so no other one stops it."""
    directory = Path("new/visits")
    offsets = directory / "checkpoint" / "offsets"
    offsets.parent.mkdir(parents=True)
    offsets.symlink_to("offsets")
    job(JOB, "views")
    Path("new/views").mkdir()
    Path("new/views/pulse.json").write_text(json.dumps({"at": 1.0, "batch": 1, "query": QUERY}))
    note = directory / "checkpoint.origin.json"
    note.write_text(json.dumps({"tables": ["other"], "topics": ["clicks"]}))

    assert "" == fresh_start_refusal(the_job())
