"""What the demo says about a machine that lacks something, before it starts anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kfetch_jobs import doctor
from kfetch_jobs.demo import checks
from kfetch_jobs.demo.settings import BUNDLED_PROJECT, Settings
from kfetch_jobs.doctor import Finding, Grade
from kfetch_jobs.errors import MavenError
from tests.kfetch_jobs.commands import Command

PROJECT = """\
storage: ${env:KFETCH_STORAGE:-data}
clusters:
  demo: {bootstrap.servers: "${env:KFETCH_BOOTSTRAP:-127.0.0.1:9092}"}
  other: {bootstrap.servers: "127.0.0.1:9092"}
"""
JOB = """\
source: {cluster: demo, subscribe: clicks, options: {startingOffsets: earliest}}
sink: {path: "${storage}/table"}
trigger: {processingTime: 2s}
"""


@pytest.fixture(autouse=True)
def fitting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with Java, disk and jars, and a process in an empty directory."""
    java = Finding(grade=Grade.OK, subject="java", text="21")
    monkeypatch.setattr(doctor, "java", lambda: java)
    monkeypatch.setattr(checks, "is_cached", lambda *_: True)
    monkeypatch.chdir(tmp_path)


def settings(**changed: object) -> Settings:
    values: dict[str, object] = {"project": BUNDLED_PROJECT}
    return Settings(**(values | changed))  # type: ignore[arg-type]


def the_problem(**changed: object) -> str:
    """The one sentence about these settings."""
    (sentence,) = checks.problems(settings(**changed))
    return sentence


def test_a_machine_that_has_everything(tmp_path: Path) -> None:
    """There is nothing to say, and the checks leave no file."""
    assert [] == checks.problems(settings())
    assert [] == list(tmp_path.iterdir())


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the minimum and how to point to a Java."""
    advice = "install Java 17 or later"
    java = Finding(grade=Grade.FAIL, subject="java", text="there is no Java", advice=advice)
    monkeypatch.setattr(doctor, "java", lambda: java)

    assert "there is no Java: install Java 17 or later" == the_problem()


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (None, "delta-spark is not installed: pip install 'delta-spark==4.4.0'"),
        ("3.0", "delta-spark is 3.0, but kfetch needs ==4.4.0: pip install 'delta-spark==4.4.0'"),
    ],
)
def test_a_package_that_is_missing_or_old(
    monkeypatch: pytest.MonkeyPatch, version: str | None, sentence: str
) -> None:
    """The sentence has the pip command."""
    versions = {"delta-spark": version, "pyspark": "4.2.0"}
    requirements = ["delta-spark==4.4.0", "pyspark==4.2.0"]
    monkeypatch.setattr(
        doctor, "installed_packages", lambda: doctor.packages(requirements, versions.get)
    )

    assert sentence == the_problem()


def test_little_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The need grows with the number of events. Without jars, the cache needs room too."""
    usage = SimpleNamespace(free=260 << 20)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: usage)

    assert [] == checks.problems(settings(seconds=1, rate=100))
    assert "has 260 MiB free, and the demo needs 484 MiB: make room, or set TMPDIR" in (
        the_problem(seconds=40, rate=20_000)
    )
    usage.free = 200 << 20
    monkeypatch.setattr(checks, "is_cached", lambda *_: False)
    temporary, cache = checks.problems(settings(seconds=1, rate=100))
    assert "TMPDIR" in temporary
    assert "set KFETCH_CACHE to another disk" in cache


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("subscribe: clicks", "subscribePattern: c.*", "give job clicks one in source.subscribe"),
        ("subscribe: clicks", 'subscribe: "a,b"', "give job clicks one in source.subscribe"),
        ("cluster: demo", "cluster: other", "would read another Kafka than the demo's"),
        ("startingOffsets: earliest", "startingOffsets: latest", "set startingOffsets: earliest"),
        ('"${storage}/table"', "/data/table", "would write outside of the demo's directory"),
        ("sink: {path", "sink: {table: a.b, # ", "would write outside of the demo's directory"),
        ("{processingTime: 2s}", "availableNow", "give job clicks the trigger processingTime"),
        ("trigger:", "triger:", "conf/jobs/clicks.yml:3"),
    ],
)
def test_a_job_that_does_not_fit_the_demo(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    """The user's own job may touch nothing but the demo's Kafka and storage, and must run on."""
    (tmp_path / "conf" / "jobs").mkdir(parents=True)
    project = tmp_path / "conf" / "kfetch.yml"
    project.write_text(PROJECT)
    job = tmp_path / "conf" / "jobs" / "clicks.yml"
    job.write_text(JOB)

    assert [] == checks.problems(settings(project=project))
    text = JOB.replace(old, new)
    job.write_text(text.replace("}\ntrigger", "\n  }\ntrigger") if "#" in new else text)
    assert sentence in " ".join(checks.problems(settings(project=project)))


def test_a_job_without_a_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo of a user's own job lists that problem, and looks at the job too."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "kfetch.yml").write_text(PROJECT)
    (tmp_path / "jobs" / "clicks.yml").write_text(JOB.replace("earliest", "latest"))

    def refuse() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(checks.tempfile, "gettempdir", refuse)
    directory, job = checks.problems(settings(project=tmp_path / "kfetch.yml"))
    assert "set TMPDIR to one" in directory
    assert "set startingOffsets: earliest" in job


OTHERS = "the demo with --open would run every enabled job of the project, also orders: leave out"


@pytest.mark.parametrize(
    ("orders", "refused"),
    [
        (JOB + "enabled: false\n", False),
        (JOB.replace("cluster: demo", "cluster: other"), True),
        ("source: [\n", True),
    ],
)
def test_a_supervisor_that_would_do_more(tmp_path: Path, orders: str, refused: bool) -> None:
    """With ``--open`` a supervisor runs, and it must run the demo's job alone. Without it, only
    that job counts."""
    (tmp_path / "jobs").mkdir()
    project = tmp_path / "kfetch.yml"
    project.write_text(PROJECT)
    (tmp_path / "jobs" / "clicks.yml").write_text(JOB)
    (tmp_path / "jobs" / "orders.yml").write_text(orders)

    assert [] == checks.problems(settings(project=project))
    found = checks.problems(settings(project=project, open_page=True))
    assert [True] * refused == [one.startswith(OTHERS) for one in found]


def test_jars_are_downloaded_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download is announced. If it fails, the demo ends before it starts a broker."""
    lines: list[str] = []
    asked: list[str] = []
    monkeypatch.setattr(checks, "jars", lambda *names: asked.extend(names))
    checks.download_jars(lines.append)
    assert [] == lines
    assert "io.delta:delta-spark_4.2_2.13:4.4.0" in asked

    def refuse(*_: str) -> None:
        raise MavenError("cannot download: check the connection")

    monkeypatch.setattr(checks, "is_cached", lambda *_: False)
    monkeypatch.setattr(checks, "jars", refuse)
    with pytest.raises(MavenError, match="check the connection"):
        checks.download_jars(lines.append)
    assert lines[0].startswith("downloading Kafka and Delta")


def test_the_verb_lists_every_problem(kfetch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one is a line on stderr; the exit code is 2, and nothing was started."""
    java = Finding(grade=Grade.FAIL, subject="java", text="there is no Java", advice="install one")
    monkeypatch.setattr(doctor, "java", lambda: java)
    code, out, err = kfetch("demo", "--seconds", "1e12")

    assert (2, "") == (code, out)
    assert 2 == len(err.splitlines())
    assert all(line.startswith("kfetch: ") for line in err.splitlines())
