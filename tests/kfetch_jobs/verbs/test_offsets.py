"""``kfetch offsets show``: what it prints of checkpoints, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints import checkpoint
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import committed, job, offset, planned, write
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB


@pytest.fixture
def kafka(kafka_of_new_job: LittleKafka) -> LittleKafka:
    """Replaces the ``kafka`` of conftest, whose job has a checkpoint."""
    return kafka_of_new_job


def the_job() -> Job:
    return config.load(config.find(Path.cwd())).job("clicks")


def test_offsets_show(kafka: LittleKafka, kfetch: Command) -> None:
    """The command prints planned and committed offsets, epochs and ids, without Kafka."""
    assert "Spark has planned no micro-batch yet" in kfetch("offsets", "show", "clicks")[1]
    planned(0, offset(kafka, 1, 0, epoch=4))
    planned(1, offset(kafka, 3, 1, epoch=5))
    committed(0)
    (Path("data/clicks/checkpoint") / "metadata").write_text('{"id":"q-1"}')
    told = json.loads(kfetch("offsets", "show", "clicks", "--json")[1])

    assert ("q-1", 1, 0, 1_700_000_000.0) == tuple(
        told[key] for key in ("query", "planned", "committed", "planned_s")
    )
    topic_id = kafka.topics["clicks"].topic_id.hex
    assert {"clicks": topic_id} == told["sources"][0]["topics"]
    assert [(1, 3, 5), (0, 1, 5)] == [
        (each["committed"], each["planned"], each["leader_epoch"])
        for each in told["sources"][0]["partitions"]
    ]
    out = kfetch("offsets", "show", "clicks")[1]
    assert "last planned: 1 at 2023-11-1" in out
    assert ["clicks-0", "1", "3", "5"] in [line.split() for line in out.splitlines()]


def test_offsets_of_the_connector(kafka: LittleKafka, kfetch: Command) -> None:
    """A checkpoint of Spark's own connector has neither epochs nor ids."""
    planned(0, {"clicks": {"0": 3, "1": 1}})
    committed(0)

    assert "clicks (id unknown)" in kfetch("offsets", "show", "clicks")[1]
    assert 0 == kfetch.plan()["behind"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("v2\n{}\n0:-", "offsets/0 is of version v2, and this kfetch knows v1"),
        ("v1", "offsets/0 is no plan of a micro-batch"),
        ("v1\n{}\n{broken", "offsets/0 is no plan of a micro-batch"),
        ('v1\n{}\n{"version": 9}', "offsets/0 can't be used: the checkpoint's offset has version"),
    ],
)
def test_a_checkpoint_that_can_not_be_read(
    kafka: LittleKafka, kfetch: Command, text: str, sentence: str
) -> None:
    """One line with the file and what to do."""
    write("offsets", 0, text)
    code, _, said = kfetch("offsets", "show", "clicks")

    assert 1 == code
    assert sentence in said
    assert "restore the checkpoint's directory from a backup" in said


def test_commits_without_plans(kafka: LittleKafka, kfetch: Command) -> None:
    """A checkpoint with commits and without offsets is an error: the job would start anew."""
    committed(4)
    assert "has commits, but offsets has no plan of them" in kfetch("plan", "clicks")[2]


def test_a_checkpoint_on_another_file_system(kafka: LittleKafka, project: Path) -> None:
    """kfetch has no driver for them. A file: URI is on this machine."""
    viewfs = "spark:\n  spark.hadoop.fs.defaultFS: viewfs://namenode\n"
    for text, sentence in (
        ("checkpoint: viewfs://name/x\n", "viewfs://name/x is not on this machine,"),
        ("checkpoint: dbfs:/x\n", "dbfs:/x is not on this machine,"),
        (viewfs, r"clicks/checkpoint is not on this machine \(spark.hadoop.fs.defaultFS names"),
    ):
        job(JOB + text)
        with pytest.raises(JobsError, match=sentence):
            checkpoint.job_checkpoint(the_job())
    job(JOB + f"checkpoint: file://{project}/a b\n")
    assert project / "a b" == checkpoint.job_checkpoint(the_job()).path


def test_what_to_copy_of_a_checkpoint_elsewhere(kafka: LittleKafka) -> None:
    """A job whose checkpoint lacks its metadata starts under a new query id, and Delta would take
    each micro-batch for a new one."""
    job(JOB + "checkpoint: viewfs://name/x\n")
    with pytest.raises(
        JobsError, match="directories offsets, commits and sources and its file met"
    ):
        checkpoint.job_checkpoint(the_job())
