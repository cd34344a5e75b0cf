"""Only one process works on a checkpoint, on any number of hosts."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfetch.errors import LeaseLost
from kfetch.storage import processes
from kfetch.storage.lease import LENGTH_S, Lease, parse, taken
from kfetch.storage.open import lease_beside, stored_path
from kfetch.storage.processes import boottime, this_process
from kfetch.storage.versions import VersionedFile
from kfetch_jobs import config
from kfetch_jobs.checkpoints import lease_note
from kfetch_jobs.checkpoints.half_written import remove_half_written
from kfetch_jobs.checkpoints.location import checkpoint_path
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.term_file import TermFile
from kfetch_jobs.run import job_lock
from kfetch_jobs.run.job_lock import hold_job
from kfetch_jobs.util.files import try_lock
from tests.kfetch_jobs.checkpoints import job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB
from tests.store import Store
from tests.store_proxy import proxied


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")


def loaded(text: str = JOB, name: str = "clicks") -> Job:
    job(text, name)
    return config.load(config.find(Path.cwd())).job(name)


def in_store(store: Store, project: Path) -> str:
    settings = "".join(f"  {name}: '{value}'\n" for name, value in store.settings.items())
    return JOB + f"checkpoint: {store.uri}/{project.name}/ck\nspark:\n{settings}"


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.allow_hosts(["127.0.0.1"]))])
def one(request: pytest.FixtureRequest, project: Path) -> tuple[Job, VersionedFile]:
    """A job whose checkpoint is on this machine or in a store, and the checkpoint's lease."""
    if request.param == "disk":
        made = loaded()
    else:
        made = loaded(in_store(request.getfixturevalue("store"), project))
    path = stored_path(made.checkpoint, made.spark)
    assert path is not None
    return made, lease_beside(path)


def hold(the_job: Job) -> None:
    with hold_job(the_job, "a test"):
        pass


def written(lease: VersionedFile) -> Lease:
    version = lease.read()
    assert version is not None
    read = parse(version.content)
    assert read is not None
    return read


def test_a_run_holds_the_lease(one: tuple[Job, VersionedFile]) -> None:
    """It says who, for what, and is free behind the block."""
    the_job, lease = one
    with hold_job(the_job, "run of job clicks") as fence:
        fence.check()
        holder = written(lease).holder
        assert holder is not None
        assert replace(this_process("run of job clicks"), id=holder.id) == holder
    assert written(lease).holder is None


def test_a_run_whose_supervisor_leads_no_longer(project: Path, tmp_path: Path) -> None:
    """It must stop, and commits nothing more, although it holds the lease of its checkpoint."""
    term = TermFile(tmp_path / "term", 30.0)
    term.end_in(30.0)
    with hold_job(loaded(), "a test", term) as fence:
        fence.check()
        assert "" == fence.trouble()
        term.end_in(10.0)
        assert "does not lead the project any more" in fence.trouble()
        with pytest.raises(LeaseLost, match="does not lead the project any more"):
            fence.check()


def test_a_second_run(one: tuple[Job, VersionedFile]) -> None:
    """One sentence with object, host, process and time, at once, and what to do."""
    the_job, lease = one
    elsewhere = replace(the_job, directory=Path("elsewhere"))
    with hold_job(the_job, "run of job clicks"), pytest.raises(JobsError) as refused:
        hold(elsewhere)
    me = this_process("")
    assert refused.value.what.startswith(
        f"job clicks: the lease {lease} is held by process {me.pid} on host {me.host} "
        "(run of job clicks) since 20"
    )
    assert "kfetch pause clicks" in refused.value.message


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from kfetch_jobs import config
from kfetch_jobs.run.job_lock import hold_job
job = config.load(config.find(Path.cwd())).job("clicks")
with hold_job(job, "run of job clicks"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_was_killed(one: tuple[Job, VersionedFile]) -> None:
    """It is replaced at once on its own host."""
    the_job, lease = one
    killed = subprocess.run([sys.executable, "-c", _KILLED], timeout=60, check=False)
    assert (-9, True) == (killed.returncode, written(lease).holder is not None)
    with hold_job(the_job, "run of job clicks"):
        assert 2 == written(lease).epoch


_HALF = ".7.0d7e5b9e-1c2d-4e3f-8a9b-0123456789ab.tmp"
_FILES = ["offsets/6", "commits/6", f"offsets/{_HALF}", f"commits/{_HALF}", "offsets/.6.crc"]


def _write(the_job: Job, request: pytest.FixtureRequest) -> None:
    """Write the files of a checkpoint."""
    for name in _FILES:
        if "://" in the_job.checkpoint:
            store: Store = request.getfixturevalue("store")
            store.put(f"{the_job.checkpoint.removeprefix(store.uri)}/{name}".strip("/"), b"x")
        else:
            file = Path(the_job.checkpoint) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")


def _listed(the_job: Job) -> set[str]:
    path = checkpoint_path(the_job)
    assert path is not None
    return {
        f"{log}/{file.name}" for log in ("offsets", "commits") for file in (path / log).iterdir()
    }


def test_half_written_files(one: tuple[Job, VersionedFile], request: pytest.FixtureRequest) -> None:
    """A run that takes over removes them: the one before could still rename them when it wakes.

    Behind a run that has ended, they stay: they can't be its own."""
    the_job, _ = one
    hold(the_job)
    _write(the_job, request)
    hold(the_job)
    assert set(_FILES) == _listed(the_job)
    subprocess.run([sys.executable, "-c", _KILLED], timeout=60, check=False)
    assert set(_FILES) == _listed(the_job)
    hold(the_job)
    assert {"offsets/6", "commits/6", "offsets/.6.crc"} == _listed(the_job)


@pytest.mark.s3
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_requests_for_half_written_files(store: Store, project: Path) -> None:
    """A list of a checkpoint with 10,000 micro-batches is one request for each log."""
    with proxied(store) as proxy:
        the_job = loaded(in_store(proxy.store, project))
        for log in ("offsets", "commits"):
            for number in (*range(10_000), _HALF):
                store.put(f"{project.name}/ck/{log}/{number}", b"x")
        proxy.heal()
        remove_half_written(the_job)
        assert {"LIST": 2, "POST": 2} == proxy.counted()
        assert not any(name.endswith("tmp") for name in _listed(the_job))


_FAILS = """
from pathlib import Path
from kfetch_jobs import config
from kfetch_jobs.errors import JobsError
from kfetch_jobs.run import job_lock
def refused(job):
    raise JobsError("it can't be removed")
job_lock.remove_half_written = refused
with job_lock.hold_job(config.load(config.find(Path.cwd())).job("clicks"), "run of job clicks"):
    pass
"""


def test_half_written_files_that_stay(
    one: tuple[Job, VersionedFile], request: pytest.FixtureRequest
) -> None:
    """If a run that takes over can't remove them, it fails, and the next one tries again."""
    the_job, _ = one
    _write(the_job, request)
    subprocess.run([sys.executable, "-c", _KILLED], timeout=60, check=False)
    failed = subprocess.run(
        [sys.executable, "-c", _FAILS], timeout=60, check=False, capture_output=True
    )
    assert failed.stderr.endswith(b"JobsError: it can't be removed [JOBS_ERROR]\n")
    assert set(_FILES) == _listed(the_job)
    hold(the_job)
    assert {"offsets/6", "commits/6", "offsets/.6.crc"} == _listed(the_job)


def test_a_run_of_another_host(
    one: tuple[Job, VersionedFile],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A silent one is replaced after four thirds of its lease, and the wait is announced."""
    the_job, lease = one
    monkeypatch.setattr(job_lock, "_LENGTH_S", 1.5)
    monkeypatch.setattr(processes, "_machine", lambda: "another one")
    subprocess.run([sys.executable, "-c", _KILLED], timeout=60, check=False)
    _shorten(lease)
    with hold_job(the_job, "run of job clicks"):
        assert 2 == written(lease).epoch
    [waiting] = [record.message for record in caplog.records if "Waiting" in record.message]
    assert "Waiting for a sign of life, 2 s at most" in waiting


def test_a_note_on_a_machine_that_slept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of a disk that no other machine writes counts without sleep, and a supervisor's
    note counts with it. So such a lease has no use for notes, and the wait is none of hours."""

    def report(wait: str) -> None:
        raise InterruptedError(wait)

    the_job = loaded()
    monkeypatch.setattr(processes, "_machine", lambda: "another one")
    subprocess.run([sys.executable, "-c", _KILLED], timeout=60, check=False)
    monkeypatch.setattr(lease_note, "boottime", lambda: time.monotonic() + 28_800)
    lease_note.note_lease(the_job, request_s=1)
    monkeypatch.setattr(job_lock, "log", SimpleNamespace(warning=report))
    with pytest.raises(InterruptedError, match="Waiting for a sign of life, 40 s at most"):
        hold(the_job)


def test_a_note_of_another_lease(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a shared disk the next lease at the same place has the numbers of the last one. A
    supervisor's note about that one says nothing about the new holder."""

    def report(wait: str) -> None:
        raise InterruptedError(wait)

    the_job = loaded()
    path = stored_path(the_job.checkpoint, the_job.spark)
    assert path is not None
    for host in ("gone", "new"):
        away = replace(this_process("a test"), id=host, host=host, machine=host)
        lease = lease_beside(path)
        assert lease.write(taken(None, away, LENGTH_S, 0.0).content(), None)
        if host == "gone":
            with monkeypatch.context() as earlier:
                earlier.setattr(lease_note, "boottime", lambda: boottime() - 3600)
                lease_note.note_lease(the_job, request_s=1)
            shutil.rmtree(str(lease))
    monkeypatch.setattr(job_lock, "_may_be_shared", lambda _: True)
    monkeypatch.setattr(job_lock, "log", SimpleNamespace(warning=report))
    with pytest.raises(InterruptedError, match=r"on host new .* of life, 40 s at most"):
        hold(the_job)


def _shorten(lease: VersionedFile) -> None:
    """Make the lease of a dead process as long as the test's own."""
    version = lease.read()
    assert version is not None
    before = parse(version.content)
    assert before is not None
    assert LENGTH_S == before.length_s
    assert lease.write(replace(before, length_s=1.5).content(), version.token)


def test_another_project_on_the_same_checkpoint(project: Path) -> None:
    """A path and a URI are one checkpoint, and so are a directory and a link to it."""
    (project / "real").mkdir()
    (project / "link").symlink_to(project / "real")
    texts = [f"file://{project}/real", f"{project}/real", f"file:{project}/link"]
    with hold_job(loaded(JOB + f"checkpoint: {texts[0]}\n"), "run of job clicks"):
        for number, text in enumerate(texts):
            other = loaded(JOB + f"checkpoint: {text}\n", f"other{number}")
            with pytest.raises(JobsError, match="is held by"):
                hold(other)


def test_a_second_run_in_the_same_directory(project: Path) -> None:
    """The lock of the job's directory refuses it before anybody asks a store."""
    the_job = loaded()
    refused = pytest.raises(JobsError, match="job clicks runs here already")
    with try_lock(the_job.directory / "lock"), refused:
        hold(the_job)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("checkpoint: viewfs://name/ck\n", "kfetch writes only to file:, s3a:, abfss:, gs: and"),
        (
            "checkpoint: s3a://lake/ck\nspark:\n"
            "  spark.hadoop.fs.s3a.aws.credentials.provider: com.acme.Vault\n",
            "can't use the class Vault",
        ),
    ],
)
def test_where_no_lease_can_be_held(project: Path, more: str, reason: str) -> None:
    """The job's file must say that no other host runs the job. The error says why and how."""
    with pytest.raises(ConfigError, match="can hold no lease") as refused:
        hold(loaded(JOB + more))
    assert reason in refused.value.message
    assert "set singleHost: true in its file" in refused.value.message
    with hold_job(loaded(JOB + more + "singleHost: true\n"), "run of job clicks") as fence:
        assert fence.lease is None


def test_a_checkpoint_that_is_a_mount_point(project: Path) -> None:
    """The lease would lie beside the mount, on a disk that other hosts do not see."""
    text = JOB + "checkpoint: /dev/shm\n"
    with pytest.raises(ConfigError, match="it is a mount point: name a directory in it"):
        hold(loaded(text))


def test_single_host_takes_a_lease_nevertheless(project: Path) -> None:
    """Where kfetch can hold one, the key changes nothing."""
    with hold_job(loaded(JOB + "singleHost: true\n"), "run of job clicks") as fence:
        assert fence.lease is not None


def test_commands_say_before_the_first_run_that_no_lease_can_be_held(
    project: Path, kfetch: Command
) -> None:
    """``validate`` and ``plan`` exit with 2 and the run's own sentence, and ask nobody."""
    more = "checkpoint: viewfs://name/ck\n"
    with pytest.raises(ConfigError) as refused:
        hold(loaded(JOB + more))
    sentence = refused.value.message
    assert "set singleHost: true in its file" in sentence

    code, _, said = kfetch("plan", "clicks")
    assert (2, True) == (code, sentence in said)
    code, _, said = kfetch("validate")
    assert (2, f"kfetch: {sentence}\n") == (code, said)
    loaded(JOB + more + "singleHost: true\n")
    assert 0 == kfetch("validate")[0]
    loaded(JOB + more + "enabled: false\n")
    assert 0 == kfetch("validate")[0]
