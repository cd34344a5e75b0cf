"""Project and job files: what they mean, and what is said about each mistake in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs import config
from jobs.errors import ConfigError

PROJECT = """\
storage: ../data
spark:
  spark.master: local[2]
clusters:
  local:
    bootstrap.servers: ${env:SERVERS}
    fetch.max.bytes: 1000
"""
JOB = """\
source:
  cluster: local
  subscribe: clicks
  options:
    startingOffsets: earliest
    includeHeaders: true
transform:
  sql: SELECT * FROM source
sink:
  format: delta
  path: ${storage}/clicks/table
trigger:
  processingTime: 2s
"""
ENVIRON = {"SERVERS": "127.0.0.1:9092"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory in which this test's process is."""
    monkeypatch.chdir(tmp_path)
    jobs = tmp_path / "conf" / "jobs"
    jobs.mkdir(parents=True)
    (tmp_path / "conf" / "kfetch.yml").write_text(PROJECT)
    (jobs / "clicks.yml").write_text(JOB)
    return tmp_path


def test_options_of_cluster_and_job_meet(project: Path) -> None:
    """The source gets the cluster's properties with kafka. in front, and the job's options."""
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.fetch.max.bytes": "1000",
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    } == job.source_options()


def test_paths_start_from_the_project_file(project: Path) -> None:
    """Storage, table and checkpoint do not depend on where the command is given."""
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert project / "data" / "clicks" == job.directory
    assert project / "data" / "clicks" / "table" == job.table
    assert project / "data" / "clicks" / "checkpoint" == job.checkpoint


def test_the_project_is_found_from_below(project: Path) -> None:
    """The search goes upward from a directory, and looks into conf/."""
    deep = project / "a" / "b"
    deep.mkdir(parents=True)

    assert project / "conf" / "kfetch.yml" == config.find(deep)


def test_no_project(tmp_path: Path) -> None:
    """Without a project file the error says what to do."""
    with pytest.raises(ConfigError, match=r"there is no kfetch\.yml .* --project"):
        config.find(tmp_path)


def test_a_job_has_the_last_word_on_spark(project: Path) -> None:
    """The job's own Spark settings go over the project's."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB + "spark:\n  spark.master: local[4]\n")
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert {"spark.master": "local[4]"} == job.spark


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("availableNow", {"availableNow": True}),
        ("{availableNow: true}", {"availableNow": True}),
        ("{processingTime: 500ms}", {"processingTime": "500 milliseconds"}),
        ("{processingTime: 10 seconds}", {"processingTime": "10 seconds"}),
        ("{processingTime: 2m}", {"processingTime": "2 minutes"}),
    ],
)
def test_triggers(project: Path, text: str, expected: dict[str, object]) -> None:
    """A trigger may be written in short, and becomes what Spark understands."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("\n  processingTime: 2s", f" {text}"))
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert expected == job.file.trigger.arguments()


def test_a_default_stands_in_for_a_missing_variable(project: Path) -> None:
    """``${env:NAME:-text}`` is the variable, or the text."""
    file = project / "conf" / "kfetch.yml"
    file.write_text(PROJECT.replace("../data", "${env:PLACE:-../elsewhere}"))

    assert project / "elsewhere" == config.load(file, ENVIRON).storage
    assert Path("/srv") == config.load(file, ENVIRON | {"PLACE": "/srv"}).storage


IN_PROJECT = [
    ("storage:", "storrage:", "kfetch.yml:1: the key storrage is not known: did you mean storage?"),
    ("storage: ../data\n", "", "kfetch.yml:1: storage is missing"),
    ("spark.master: l", "master: l", "kfetch.yml:2: spark: master is no Spark setting"),
    ("    bootstrap.servers: ${env:SERVERS}\n", "", "kfetch.yml:4: clusters: cluster local needs"),
    ("env:SERVERS", "env:NONE", "kfetch.yml:6: the environment variable NONE is not set: export"),
    ("env:SERVERS", "evn:SERVERS", "kfetch.yml:6: ${evn:SERVERS} is unknown: did you mean env:S"),
    ("  local:", "  local: [", "kfetch.yml:6: not YAML: "),
    ("clusters:", "spark:", "kfetch.yml:4: spark stands here a second time"),
    (PROJECT, "just a word", "kfetch.yml:1: expected keys with values"),
    ("${env:SERVERS}", "nowhere", "kfetch.yml:6: option kafka.bootstrap.servers has 'nowhere'"),
    ("fetch.max.bytes", "fetch.max.byts", "kfetch.yml:7: option kafka.fetch.max.byts is not known"),
]
IN_JOB = [
    ("trigger:", "tigger:", "clicks.yml:12: the key tigger is not known: did you mean trigger?"),
    ("  cluster:", "  claster:", "clicks.yml:2: the key source.claster is not known: did you mean"),
    ("  cluster: local", "  cluster: lokal", "clicks.yml:2: conf/kfetch.yml has no cluster lokal"),
    ("  subscribe: clicks\n", "", "clicks.yml:1: source: exactly one of assign, subscribe, subs"),
    (
        "format: delta",
        "format: dleta",
        "clicks.yml:10: sink.format is 'dleta': did you mean delta?",
    ),
    ("  path: ${storage}/clicks/table\n", "", "clicks.yml:9: sink.path is missing"),
    ("2s", "soon", "clicks.yml:13: trigger.processingTime is 'soon': must be a number and a unit"),
    ("processingTime: 2s", "{}", "clicks.yml:12: trigger: must be availableNow, or processingTime"),
    ("startingOffsets", "startingOfsets", "clicks.yml:5: option starting"),
    ("earliest", "soonest", "clicks.yml:5: option startingOffsets: Expected e.g. "),
    ("true", "maybe", "clicks.yml:6: option includeHeaders is 'maybe', but it must be true or fa"),
    ("${storage}", "${storrage}", "clicks.yml:11: ${storrage} is unknown: did you mean storage?"),
    ("sql: SELECT", "sql: [SELECT]\n  sgl: SELECT", "clicks.yml:8: transform.sql: input should be"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), IN_PROJECT + IN_JOB)
def test_mistakes(project: Path, old: str, new: str, sentence: str) -> None:
    """Each mistake is one sentence with its file, its line and what to do."""
    for file in (project / "conf" / "kfetch.yml", project / "conf" / "jobs" / "clicks.yml"):
        if file.name in sentence.split(":")[0]:
            assert file.read_text().count(old) >= 1
            file.write_text(file.read_text().replace(old, new, 1))

    with pytest.raises(ConfigError) as told:
        config.load(config.find(project), ENVIRON).job("clicks")
    assert re.fullmatch(f"conf/(jobs/)?{re.escape(sentence)}.*", str(told.value))


def test_several_mistakes_are_counted(project: Path) -> None:
    """The first mistake in the file is told, with how many there are besides."""
    file = project / "conf" / "kfetch.yml"
    file.write_text(PROJECT + "a: 1\nb: 2\n")

    with pytest.raises(ConfigError, match=r"kfetch\.yml:8: the key a .* \(and 1 more\)$"):
        config.load(file, ENVIRON)


def test_an_unknown_job(project: Path) -> None:
    """A job without a file is an error that names a job there is."""
    with pytest.raises(ConfigError, match=r"no job click in conf/jobs: did you mean clicks\?"):
        config.load(config.find(project), ENVIRON).job("click")


def test_a_secret_is_not_shown(project: Path) -> None:
    """What came from the environment is told as it was written in the file."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("format: delta", "format: ${env:PASSWORD}"))

    with pytest.raises(ConfigError) as told:
        config.load(config.find(project), ENVIRON | {"PASSWORD": "hunter2"}).job("clicks")
    assert "sink.format is '${env:PASSWORD}'" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_job_keeps_its_password_out_of_its_repr(project: Path) -> None:
    """A job can be logged: the cluster's properties are not in its repr."""
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert "9092" not in repr(job)


def test_the_projects_own_files_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """conf/kfetch.yml and conf/jobs/clicks.yml of this repository load."""
    project = config.load(config.find(Path(__file__).parent), {"KFETCH_BOOTSTRAP": "localhost:1"})

    assert "clicks" in project.jobs()
    assert "clicks" == project.job("clicks").file.source.subscribe
