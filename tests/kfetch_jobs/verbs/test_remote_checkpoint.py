"""A checkpoint in a store: the commands say of it what they say of the same one on a disk."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs import config
from kfetch_jobs.checkpoints import origin
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB, PROJECT
from tests.store import Store

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


def settings(values: Mapping[str, str]) -> None:
    """Put settings of Spark into the project's file."""
    lines = "".join(f"  {name}: {value}\n" for name, value in values.items())
    text = PROJECT.replace("spark:\n", f"spark:\n{lines}")
    Path("conf/kfetch.yml").write_text(text)


@pytest.fixture
def remote(kafka: LittleKafka, store: Store, tmp_path: Path) -> str:
    """Moves the job's checkpoint into the store, and returns its URI."""
    uri = str(store.upload(CHECKPOINT, tmp_path.name))
    shutil.rmtree(CHECKPOINT)
    settings(store.settings)
    job(JOB + f"checkpoint: {uri}\n")
    return uri


def same_but_path(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "checkpoint"}


@pytest.mark.parametrize("verb", [["plan"], ["lag"], ["offsets", "show"]], ids=" ".join)
def test_the_same_words(
    kafka: LittleKafka, kfetch: Command, store: Store, tmp_path: Path, verb: list[str]
) -> None:
    """plan, lag and offsets show print the same numbers, and the URI as the path."""
    here = kfetch(*verb, "clicks", "--json")
    uri = str(store.upload(CHECKPOINT, tmp_path.name))
    shutil.rmtree(CHECKPOINT)
    settings(store.settings)
    job(JOB + f"checkpoint: {uri}\n")
    there = kfetch(*verb, "clicks", "--json")

    assert (here[0], here[2]) == (there[0], there[2])
    one, other = json.loads(here[1]), json.loads(there[1])
    if isinstance(one, dict) and "checkpoint" in one:
        assert uri == other["checkpoint"]
        one, other = same_but_path(one), same_but_path(other)
    text = json.dumps(other).replace(uri, str(CHECKPOINT.absolute()))
    assert one == json.loads(text)


def test_a_checkpoint_that_was_not_copied(
    kafka: LittleKafka, kfetch: Command, store: Store, tmp_path: Path
) -> None:
    """plan says what a run would say: the job has run before, and there are no offsets."""
    loaded = config.load(Path("conf/kfetch.yml"), os.environ).job("clicks")
    origin.note_origin(loaded, {"source": "c"})
    settings(store.settings)
    job(JOB + f"checkpoint: {store.uri}/{tmp_path.name}/ck\n")

    code, said, _ = kfetch("plan", "clicks")

    assert 1 == code
    assert f"FAILS: job clicks has no offsets in its checkpoint {store.uri}/" in said
    assert f"the note in {store.uri}/{tmp_path.name}/ck.origin.json and " in said
    assert "checkpoint.origin.json tells of its earlier runs" in said


@pytest.mark.s3
def test_settings_that_cannot_be_followed(remote: str, kfetch: Command, store: Store) -> None:
    """The commands can't read what Spark reads then, and name the setting. No key is shown."""
    bad = {"spark.hadoop.fs.s3a.aws.credentials.provider": "com.acme.Vault"}
    settings(store.settings | bad)

    code, _, said = kfetch("plan", "clicks")

    assert code
    assert "kfetch can't use the class Vault of spark.hadoop.fs.s3a.aws.credentials" in said
    assert "pa55word" not in said
