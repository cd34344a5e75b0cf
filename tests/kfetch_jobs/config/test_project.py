"""Project and job files: what they mean, and what is said about each mistake in them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.config.job import with_absolute_paths
from kfetch_jobs.config.schema import KINDS, schema
from kfetch_jobs.config.source_options import option_warnings
from kfetch_jobs.config.yamlfile import display, with_placeholders
from kfetch_jobs.errors import ConfigError
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT, checked


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


def test_a_jobs_options_are_parsed_once(project: Path) -> None:
    """All who ask a job for the values of a source's options get the same ones."""
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert job.parsed_options().fetch.max_bytes == 1000
    assert job.parsed_options() is job.parsed_options()


def test_paths_start_from_the_project_file(project: Path) -> None:
    """Storage, table and checkpoint do not depend on where the command is given."""
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert project / "data" / "clicks" == job.directory
    assert str(project / "data" / "clicks" / "table") == job.target.path
    assert str(project / "data" / "clicks" / "checkpoint") == job.checkpoint


@pytest.mark.parametrize("store", ["ssl.truststore.location", "ssl.keystore.location"])
@pytest.mark.parametrize(
    ("written", "read"), [("ca.pem", "{}/conf/ca.pem"), ("/etc/ca.pem", "/etc/ca.pem"), ("", "")]
)
def test_stores_start_from_the_project_file(
    project: Path, store: str, written: str, read: str
) -> None:
    """A run, and Spark's workers, may have another directory. So they get absolute paths."""
    file = project / "conf" / "kfetch.yml"
    file.write_text(f'{PROJECT}    {store}: "{written}"\n')
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert read.format(project) == job.source_options()[f"kafka.{store}"]

    file.write_text(PROJECT)
    own = JOB.replace("  options:\n", f'  options:\n    kafka.{store}: "{written}"\n')
    (project / "conf" / "jobs" / "clicks.yml").write_text(own)
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert read.format(project) == job.source_options()[f"kafka.{store}"]


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
        ("{availableNow: True}", {"availableNow": True}),
        ("{processingTime: 500ms}", {"processingTime": "500 milliseconds"}),
        ("{processingTime: 10 seconds}", {"processingTime": "10 seconds"}),
        ("{processingTime: 2m}", {"processingTime": "2 minutes"}),
        ("{processingTime: 1 minute}", {"processingTime": "1 minutes"}),
        ("continuous", {"processingTime": "0 seconds"}),
        ('{cron: "0 * * * *", timezone: Europe/Berlin}', {"availableNow": True}),
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


def test_several_mistakes_are_counted(project: Path) -> None:
    """The first mistake in the file is told, with how many there are besides."""
    file = project / "conf" / "kfetch.yml"
    file.write_text(PROJECT + "a: 1\nb: 2\n")

    with pytest.raises(
        ConfigError, match=r"kfetch\.yml:8: the key a .* \(and 1 more\) \[CONFIG_INVALID\]$"
    ):
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


def test_an_environment_goes_over_the_project(project: Path) -> None:
    """env/NAME.yml replaces storage, Spark's settings and properties of clusters, one by one."""
    env = project / "conf" / "env"
    env.mkdir()
    (env / "prod.yml").write_text(
        "storage: elsewhere\nsharedDirectories: [elsewhere]\nspark:\n  spark.master: yarn\n"
        "clusters:\n  local:\n    fetch.max.bytes: 7\n"
    )
    found = config.load(config.find(project), ENVIRON, "prod")
    job = found.job("clicks")

    assert ("prod", "elsewhere") == (found.environment_name, found.storage.name)
    assert "yarn" == job.spark["spark.master"]
    assert "7" == job.source_options()["kafka.fetch.max.bytes"]
    assert "127.0.0.1:9092" == job.source_options()["kafka.bootstrap.servers"]


@pytest.mark.parametrize("how", ["argument", "variable", "file"])
def test_how_an_environment_is_chosen(project: Path, how: str) -> None:
    """By --env, else by KFETCH_ENV, else by the project file."""
    env = project / "conf" / "env"
    env.mkdir()
    for name in ("argument", "variable", "file"):
        (env / f"{name}.yml").write_text(f"spark:\n  spark.master: {name}\n")
    (project / "conf" / "kfetch.yml").write_text(PROJECT + "environment: file\n")
    environ = ENVIRON | ({} if how == "file" else {"KFETCH_ENV": "variable"})
    argument = "argument" if how == "argument" else None

    assert how == config.load(config.find(project), environ, argument).environment_name


def test_a_secret_may_come_from_a_file(project: Path) -> None:
    """``${file:PATH}`` is a file's text, without the end of its last line."""
    (project / "conf" / "secret").write_text("hunter2\n")
    file = project / "conf" / "kfetch.yml"
    file.write_text(PROJECT.replace("${env:SERVERS}", "${file:secret}:9092"))
    job = config.load(file, ENVIRON).job("clicks")

    assert "hunter2:9092" == job.source_options()["kafka.bootstrap.servers"]
    assert "hunter2" not in repr(config.load(file, ENVIRON)) + repr(job)


def test_a_secret_with_a_byte_order_mark(project: Path) -> None:
    """Editors of Windows begin a file with one. It is no part of the secret."""
    (project / "conf" / "servers").write_bytes(b"\xef\xbb\xbf127.0.0.1:9\r\n")
    file = project / "conf" / "kfetch.yml"
    file.write_text(file.read_text().replace("${env:SERVERS}", "${file:servers}"))
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert "127.0.0.1:9" == job.source_options()["kafka.bootstrap.servers"]


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_secret_that_others_can_read_is_named(project: Path, mode: int, warned: bool) -> None:
    """A warning names the line, the file and the command. It never has the content."""
    secret, file = project / "conf" / "secret", project / "conf" / "kfetch.yml"
    secret.write_text("hunter2\n")
    secret.chmod(mode)
    file.write_text(PROJECT + "    client.id: ${file:secret}\n")
    warnings = option_warnings(config.load(file, ENVIRON).job("clicks"))

    readable = (
        f"conf/kfetch.yml:8: other users of this machine can read {secret}: chmod 600 {secret}"
    )
    assert ([readable] if warned else []) == warnings


def test_a_schema_is_no_secret(project: Path) -> None:
    """Others may read its file, which may be long, and logs keep its text."""
    schema = project / "conf" / "schemas" / "c.ddl"
    schema.parent.mkdir()
    schema.write_text("session_id STRING\n" + "-- a comment\n" * 6_000)
    schema.chmod(0o644)
    more = "options:\n    valueFormat: json\n    VALUESCHEMA: ${file:../schemas/c.ddl}"
    (project / "conf" / "jobs" / "clicks.yml").write_text(JOB.replace("options:", more, 1))
    loaded = config.load(project / "conf" / "kfetch.yml", ENVIRON)
    job = loaded.job("clicks")

    assert [] == option_warnings(job)
    assert "session_id STRING" == job.redacted("session_id STRING")
    assert not loaded.secrets


def test_a_descriptor_s_path_starts_at_the_project_file(project: Path) -> None:
    """As the paths of certificates do, wherever the command runs."""
    assert {
        "valueDescriptor": str(project / "conf" / "types" / "c.desc"),
        "keyDescriptor": "/c.desc",
    } == with_absolute_paths(
        {"valueDescriptor": "types/c.desc", "keyDescriptor": "/c.desc"}, project / "conf"
    )


def test_a_cluster_may_have_options_of_kfetch(project: Path) -> None:
    """Kafka's properties get ``kafka.`` in front, and options of kfetch keep their names."""
    file = project / "conf" / "kfetch.yml"
    file.write_text(PROJECT + "    kfetch.agent: inline\n")
    options = config.load(file, ENVIRON).job("clicks").source_options()

    assert ("inline", "1000") == (options["kfetch.agent"], options["kafka.fetch.max.bytes"])


@pytest.mark.parametrize("secret", ["hunter2", "no", "'quoted'", "a:b"])
def test_an_options_mistake_hides_what_came_from_elsewhere(project: Path, secret: str) -> None:
    """The source's sentence about an option shows ``${…}`` in place of what it brought."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("includeHeaders: true", "includeHeaders: ${env:SECRET}"))

    with pytest.raises(ConfigError) as told:
        config.load(config.find(project), ENVIRON | {"SECRET": secret}).job("clicks")
    assert "option includeHeaders is '${env:SECRET}'" in str(told.value)


@pytest.mark.parametrize("where", ["clicks.yml", "kfetch.yml"])
def test_a_default_is_told_once(project: Path, where: str) -> None:
    """``${env:NAME:-text}`` has the text that it stands for: what was told as it was written is not
    hidden again in itself, nor by another file that has the same reference."""
    written = "${env:FLAG:-maybe}"
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("includeHeaders: true", f"includeHeaders: {written}"))
    if where == "kfetch.yml":
        (project / "conf" / where).write_text(f"{PROJECT}    client.id: {written}\n")

    with pytest.raises(ConfigError) as told:
        config.load(config.find(project), ENVIRON).job("clicks")
    assert f"option includeHeaders is '{written}', but it must be" in str(told.value)


@pytest.mark.parametrize("secret", ['S3cr"et\\pass1', "pässwörd", "plain-password", "tab\tbed"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_in_json(secret: str, ascii_only: bool) -> None:
    """A line of JSON writes quotes, backslashes and letters in another way. It is hidden too."""
    line = json.dumps({"message": f"refused {secret} of joe"}, ensure_ascii=ascii_only)

    assert '{"message": "refused ${file:pw} of joe"}' == with_placeholders(
        line, {secret: "${file:pw}"}
    )


def test_hiding_twice_is_hiding_once() -> None:
    """A sentence may be a part of a log that is hidden when it is shown, too; a secret that holds
    a reference is hidden as a whole."""
    written = {"hunter2": "${env:PASS:-hunter2}", "a${file:x}b": "${file:y}", "xy": "${file:x}"}
    once = with_placeholders("'hunter2' of hunter2, a${file:x}b", written)

    assert "'${env:PASS:-hunter2}' of ${env:PASS:-hunter2}, ${file:y}" == once
    assert once == with_placeholders(once, written)


def test_a_failure_shows_addresses_and_no_secrets(project: Path) -> None:
    """What came from a file, or stands under a key that sounds like a secret, is not in the
    sentence of a run's error; a broker's address is."""
    (project / "conf" / "pin").write_text("swordfish")
    text = PROJECT.replace(
        "spark.master: local[2]",
        "spark.master: local[2]\n  spark.hadoop.secret.key: ${env:PASS}\n  spark.x: ${file:pin}",
    )
    (project / "conf" / "kfetch.yml").write_text(text)
    job = config.load(config.find(project), ENVIRON | {"PASS": "hunter2"}).job("clicks")

    assert "127.0.0.1:9092 refused '${env:PASS}' and ${file:pin}" == job.redacted(
        "127.0.0.1:9092 refused 'hunter2' and swordfish"
    )


def test_targets_may_be_remote_or_named(project: Path) -> None:
    """A URI is left as it is; a table is a name in Spark's catalog."""
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(JOB.replace("${storage}/clicks/table", "s3a://bucket/clicks"))
    assert (
        "s3a://bucket/clicks"
        == config.load(config.find(project), ENVIRON).job("clicks").target.path
    )

    file.write_text(JOB.replace("path: ${storage}/clicks/table", "table: lake.clicks"))
    assert "lake.clicks" == config.load(config.find(project), ENVIRON).job("clicks").target.table


def test_several_sources_are_views(project: Path) -> None:
    """Each of ``sources`` has its own options; the transform sees them by name."""
    one, rest = JOB.split("transform:")
    lines = one.removeprefix("source:\n").rstrip().splitlines()
    views = "".join(
        f"  {name}:\n" + "".join(f"  {line}\n" for line in lines) for name in ("clicks", "orders")
    ).replace("subscribe: clicks", "subscribe: x", 1)
    file = project / "conf" / "jobs" / "clicks.yml"
    file.write_text(f"sources:\n{views}transform:{rest}")
    job = config.load(config.find(project), ENVIRON).job("clicks")

    assert ["clicks", "orders"] == list(job.file.views())
    assert ("x", "clicks") == (
        job.source_options("clicks")["subscribe"],
        job.source_options("orders")["subscribe"],
    )


def test_all_mistakes_of_all_jobs(project: Path) -> None:
    """The check goes on after a mistake: it tells those of every file."""
    (project / "conf" / "jobs" / "clicks.yml").write_text(JOB + "a: 1\nb: 2\n")
    (project / "conf" / "jobs" / "orders.yml").write_text(
        JOB.replace("cluster: local", "cluster: l")
    )
    (project / "conf" / "jobs" / "users.yaml").write_text(JOB)

    with pytest.raises(ConfigError) as told:
        checked(config.load(config.find(project), ENVIRON))
    places = [mistake.split(": ")[0] for mistake in told.value.mistakes]
    assert ["users.yaml:1", "clicks.yml:14", "clicks.yml:15", "orders.yml:2"] == [
        place.removeprefix("conf/jobs/") for place in places
    ]


def test_files_that_name_no_job(project: Path) -> None:
    """Hidden files of editors and of macOS are no jobs. Another name is told as a mistake, whatever
    its bytes are, and is never a job's: the supervisor's database takes UTF-8 alone."""
    jobs = project / "conf" / "jobs"
    (jobs / ".#clicks.yml").symlink_to("joe@host.1234")
    for name in (b"._clicks.yml", b".clicks.yaml", b"my job.yml", b"caf\xe9.yml", b"caf\xe9.yaml"):
        (jobs / os.fsdecode(name)).write_text(JOB)
    found = config.load(config.find(project), ENVIRON)
    valid, mistakes = found.jobs_and_mistakes()

    assert (["clicks"], ["clicks"]) == (found.jobs(), [*valid])
    ends = [one.partition("/jobs/")[2] for one in mistakes]
    assert [
        "caf\\udce9.yaml:1: is not read: name it caf\\udce9.yml",
        "caf\\udce9.yml:1: caf\\udce9 cannot name a job: use letters, digits, _ and -, no - first",
        "my job.yml:1: my job cannot name a job: use letters, digits, _ and -, no - first",
    ] == sorted(ends)


def test_hidden_files_have_no_mistakes_beside_one_of_the_project(project: Path) -> None:
    """Hidden files are no jobs either if the project's file has a mistake."""
    (project / "conf" / "jobs" / ".#clicks.yml").symlink_to("joe@host.1234")
    (project / "conf" / "kfetch.yml").write_text("storage: [x]\n")

    with pytest.raises(ConfigError) as told:
        config.load(config.find(project), ENVIRON)
    assert not any(".#clicks" in mistake for mistake in told.value.mistakes)


def test_a_cycle_is_told_once(project: Path) -> None:
    """Jobs that wait for each other are named in their order."""
    for name, after in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        text = JOB.replace("\n  processingTime: 2s", " availableNow") + f"after: {after}\n"
        text = text.replace("clicks/table", f"{name}/table")
        (project / "conf" / "jobs" / f"{name}.yml").write_text(text)

    with pytest.raises(ConfigError) as told:
        checked(config.load(config.find(project), ENVIRON))
    assert ("conf/jobs/a.yml:13: jobs wait for each other: a after b after c after a",) == (
        told.value.mistakes
    )


@pytest.mark.parametrize("kind", ["project", "job", "environment"])
def test_schemas_are_for_editors(kind: str) -> None:
    """Every key of the models is in the schema, and no other key is allowed."""
    found = schema(kind)

    assert set(KINDS[kind].model_fields) == set(found["properties"])
    assert found["additionalProperties"] is False
    json.dumps(found)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_of_schemas_are_valid(kind: str) -> None:
    """An editor that inserts a default writes a value that the schema itself allows."""
    types = {"string": str, "number": int | float, "integer": int, "boolean": bool}
    keys = [schema(kind), *schema(kind).get("$defs", {}).values()]
    properties = [one for part in keys for one in part.get("properties", {}).values()]
    for one in properties:
        default = one.get("default")
        if default is not None and one.get("type") in types:
            assert isinstance(default, types[one["type"]]), one
            assert re.search(one.get("pattern", ""), str(default)), one


def test_this_repositorys_job_keeps_foreign_records() -> None:
    """A value that is no click goes to the dead letters. It does not become a row of nulls."""
    job = config.load(Path("conf/kfetch.yml"), {"KFETCH_BOOTSTRAP": "h:1"}).job("clicks")

    assert "json" == job.source_options()["valueFormat"]
    assert job.dead_letters is not None
    assert job.file.transform is not None
    assert "from_json" not in str(job.file.transform.sql)


@pytest.mark.parametrize("name", ["", "conf", "conf/kfetch.yml"])
def test_a_project_is_named_by_its_file_or_directory(project: Path, name: str) -> None:
    """--project takes both. Directories above the named one do not count."""
    assert project / "conf" / "kfetch.yml" == config.located(project / name)
    with pytest.raises(ConfigError, match=f"there is no kfetch.yml .* in {project}/conf/jobs: "):
        config.located(project / "conf" / "jobs")


def test_paths_are_shown_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path below it is relative. In the root directory paths keep their first slash."""
    monkeypatch.chdir(tmp_path)
    assert ("a/b", "/etc/x") == (display(tmp_path / "a" / "b"), display(Path("/etc/x")))
    assert "." == display(tmp_path)
    monkeypatch.chdir("/")
    assert "/etc/x" == display(Path("/etc/x"))
