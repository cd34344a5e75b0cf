"""A cluster's machines see no directories of this one, unless they mount them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfetch_jobs import config
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run import start_checks
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB, PROJECT

CLUSTER = PROJECT.replace("local[2]", "spark://h:7077")
FILE = Path("conf/kfetch.yml")


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")


def refused(place: str, path: Path | str) -> str:
    return (
        f"{place} {path} is a directory of this machine, and spark.master runs tasks on other "
        "machines: name a URI of a store, or list a directory that all of them mount under "
        "sharedDirectories in conf/kfetch.yml"
    )


def test_local_paths_on_a_cluster(kfetch: Command) -> None:
    """``validate`` and ``run`` refuse checkpoint and table, each with its line, before Spark."""
    FILE.write_text(CLUSTER)
    data = Path.cwd() / "data"
    sentences = [
        refused("conf/jobs/clicks.yml:1: checkpoint", data / "clicks" / "checkpoint"),
        refused("conf/jobs/clicks.yml:11: sink.path", data / "clicks" / "table"),
    ]

    code, _, said = kfetch("validate")
    assert (2, "".join(f"kfetch: {one}\n" for one in sentences)) == (code, said)
    code, _, said = kfetch("run", "clicks")
    assert 2 == code
    assert f"kfetch: {sentences[0]} (and 1 more)" in said


def test_dead_letters(kfetch: Command) -> None:
    """Their table counts, too."""
    FILE.write_text(CLUSTER + "sharedDirectories: ../data\n")
    letters = "  deadLetters: {path: ../letters}\n"
    options = "    valueFormat: json\n    valueSchema: a INT\n"
    text = JOB.replace("    includeHeaders: true\n", options)
    text = text.replace("trigger:", f"{letters}trigger:")
    Path("conf/jobs/clicks.yml").write_text(text)
    sentence = refused("conf/jobs/clicks.yml:13: sink.deadLetters.path", Path.cwd() / "letters")

    assert f"kfetch: {sentence}\n" == kfetch("validate")[2]


@pytest.mark.parametrize(
    "text",
    [
        PROJECT,
        PROJECT.replace("local[2]", "local-cluster[2,1,1024]"),
        CLUSTER + "sharedDirectories: ../data\n",
        CLUSTER + "sharedDirectories: [/mnt, ..]\n",
    ],
)
def test_what_all_machines_see(kfetch: Command, text: str) -> None:
    """Tasks of this machine, and directories that are declared as shared, with all below them."""
    FILE.write_text(text)
    assert (0, "") == kfetch("validate")[::2]


def test_stores(kfetch: Command) -> None:
    """URIs need no declaration."""
    FILE.write_text(CLUSTER)
    text = JOB.replace("${storage}/clicks/table", "s3a://lake/clicks")
    Path("conf/jobs/clicks.yml").write_text(text + "checkpoint: s3a://lake/ck\n")
    assert (0, "") == kfetch("validate")[::2]


def test_a_cluster_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files name no cluster there. A run asks Spark, before its query."""
    job = config.load(config.find(Path.cwd())).job("clicks")
    monkeypatch.setattr(start_checks, "_check_file_system", lambda *_: None)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://h:7077"))
    with pytest.raises(ConfigError, match="sharedDirectories") as caught:
        start_checks.check_new_query(spark, job)
    assert 2 == len(caught.value.mistakes)


def test_jobs_of_several_hosts(kfetch: Command) -> None:
    """With ``sharedState``, another host must find checkpoint and table, and needs a lease."""
    FILE.write_text(PROJECT + "sharedState: ../data/state\nsharedDirectories: [../data/state]\n")
    assert 2 == kfetch("validate")[2].count("and sharedState is for jobs on other machines: name a")
    FILE.write_text(PROJECT + "sharedState: ../data/state\nsharedDirectories: [../data]\n")
    assert 0 == kfetch("validate")[0]
    Path("conf/jobs/clicks.yml").write_text(JOB + "singleHost: true\n")
    assert "conf/jobs/clicks.yml:14: singleHost: true says that no other" in kfetch("validate")[2]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/var/lib/state", "it is a directory of this machine: name a URI of a store, or list a"),
        ("viewfs://host/state", "kfetch writes only to file:, s3a:, abfss:, gs: and"),
        ("s3a://ä/state", "the name of a bucket in S3 has only letters"),
    ],
)
def test_a_shared_state_that_cannot_be_used(kfetch: Command, location: str, reason: str) -> None:
    """The mistake is found in the file, without a request."""
    FILE.write_text(f"sharedState: {location}\n{PROJECT}")

    code, _, said = kfetch("validate")
    assert 2 == code
    assert f"conf/kfetch.yml:1: sharedState {location}: {reason}" in said
