"""The note beside a checkpoint in a store: a host that has never run the job knows its runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kfetch.errors import KfetchError
from kfetch.storage.objects import ObjectPath
from kfetch_jobs import config
from kfetch_jobs.checkpoints import origin
from kfetch_jobs.checkpoints.location import stored_note
from kfetch_jobs.checkpoints.origin import check_environment, note_origin, note_run, noted_topic_ids
from kfetch_jobs.config import Job
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.projects import JOB
from tests.store import BUCKET, Store
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

EARLIER = UUID(int=7).hex


@pytest.fixture
def the_job(kafka: LittleKafka, store: Store, project: Path) -> Job:
    """The job clicks, whose checkpoint is in a store."""
    return in_store(store, project)


def in_store(store: Store, project: Path) -> Job:
    store.upload(CHECKPOINT, f"{project.name}/ck")
    lines = "".join(f"  {key}: '{value}'\n" for key, value in store.settings.items())
    job(JOB + f"checkpoint: s3a://{BUCKET}/{project.name}/ck\nspark:\n{lines}")
    return config.load(config.find(Path.cwd())).job("clicks")


def on_another_host() -> None:
    """Make this the storage of a host that has not run the job."""
    shutil.rmtree("data/clicks")


def stored(the_job: Job) -> ObjectPath:
    path = stored_note(the_job)
    assert path is not None
    return path


def test_an_earlier_topic(
    the_job: Job, kafka: LittleKafka, asked: Callable[..., Any], project: Path
) -> None:
    """A replay is refused on a host that has not seen the earlier topic of that name."""
    note_origin(the_job, {})
    note_run(the_job, {"clicks": frozenset({EARLIER})})
    note_run(the_job, {"clicks": frozenset({kafka.topics["clicks"].topic_id.hex})})
    on_another_host()

    said = asked("replay", "--to-earliest", code=1)
    assert "topic clicks was deleted and created again, and the job has read the e" in said


def test_another_cluster(the_job: Job, kafka: LittleKafka, asked: Callable[..., Any]) -> None:
    """So is a cluster that the checkpoint's offsets are not from. The error names both notes."""
    note_origin(the_job, {"source": "another"})
    on_another_host()

    said = asked("reset", "--to-earliest", code=2)
    assert "its checkpoint has offsets of the Kafka cluster another" in said
    assert f"environment and clusters in {stored(the_job)} and /" in said
    on_another_host()
    stored(the_job).unlink()
    asked("reset", "--to-earliest")


def test_what_two_hosts_have_noted(the_job: Job) -> None:
    """A host that ran the job before notes were in the store adds what it knows."""
    note_origin(the_job, {"source": "c"})
    note_run(the_job, {"clicks": frozenset({"aa"})})
    stored(the_job).unlink()
    check_environment(the_job)  # without a note in the store, that of this host counts
    own = Path("data/clicks/checkpoint.origin.json").read_bytes()
    on_another_host()
    note_origin(the_job, {"source": "c"})
    note_run(the_job, {"clicks": frozenset({"bb"})})
    assert json.loads(stored(the_job).read_bytes())["ran"]

    Path("data/clicks/checkpoint.origin.json").write_bytes(own)
    check_environment(the_job)
    assert {"clicks": {"aa", "bb"}} == noted_topic_ids(the_job)
    note_origin(the_job, {"source": "c"})
    on_another_host()
    check_environment(the_job)
    assert {"clicks": {"aa", "bb"}} == noted_topic_ids(the_job)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_a_damaged_note(the_job: Job, content: bytes) -> None:
    """It is an error that names the way out: a replay could delete rows that can't come again."""
    stored(the_job).store.put(stored(the_job).key, content)
    with pytest.raises(KfetchError, match=r"ck.origin.json can't be used \(.*\): remove it"):
        check_environment(the_job)


def test_a_store_that_fails(
    kafka: LittleKafka, store: Store, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run goes on without the note. The next one on this host writes it. No command guesses."""
    with proxied(store) as proxy:
        the_job = in_store(proxy.store, project)
        _fail(proxy, "PUT")
        note_origin(the_job, {"source": "c"})
        assert "ck.origin.json can't be written: the store fails (503" in caplog.text
        proxy.heal()
        note_origin(the_job, {"source": "c"})
        assert "c" == json.loads(stored(the_job).read_bytes())["clusters"]["source"]
        _fail(proxy, "GET")
        with pytest.raises(KfetchError, match=r"ck.origin.json can't be used: the store fails"):
            check_environment(the_job)


def _fail(proxy: Proxy, method: str) -> None:
    proxy.fault(method, "ck.origin.json", Fault.BUSY, times=99)


def test_another_users_storage(the_job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not write the storage may read offsets."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    note_origin(the_job, {"source": "c"})
    on_another_host()
    monkeypatch.setattr(origin, "_write_copy", refused)
    check_environment(the_job)
