"""What is said about each mistake in a project's files: file, line, what is wrong, what to do."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest

from kfetch_jobs import config
from kfetch_jobs.config import functions
from kfetch_jobs.errors import ConfigError
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT, checked

IN_PROJECT = [
    ("storage:", "storrage:", "1: the key storrage is not known: did you mean storage? (and 1 mo"),
    ("storage: ../data\n", "", "1: storage is missing"),
    ("storage: ../data", "storage: [a]", "1: storage: input should be a valid string"),
    ("storage: ../data", "storage: s3a://b/x", "1: storage must be a local directory, for logs, l"),
    ("spark.master: l", "master: l", "2: spark: master is no Spark setting: they start with spa"),
    ("    bootstrap.servers: ${env:SERVERS}\n", "", "5: cluster local needs bootstrap.servers"),
    ("env:SERVERS", "env:NONE", "6: the environment variable NONE is not set: export it, or wri"),
    ("env:SERVERS", "evn:SERVERS", "6: ${evn:SERVERS} is unknown: did you mean env:SERVERS?"),
    ("env:SERVERS", "file:none", "6: {conf}/none cannot be read: No such file or directory"),
    ("env:SERVERS", "file:/dev/zero", "6: /dev/zero is longer than 64 KiB"),
    ("  local:", "  local: [", "6: not YAML: "),
    ("clusters:", "spark:", "4: spark stands here a second time"),
    (
        "    fetch.max.bytes",
        "    Fetch.Max.Bytes: 5\n    fetch.max.bytes",
        "5: clusters.local: fetch.max.bytes stands here a second time, as Fetch.Max.Bytes",
    ),
    (PROJECT, "just a word", "1: expected keys with values"),
    ("${env:SERVERS}", "nowhere", "6: option bootstrap.servers has 'nowhere'"),
    ("fetch.max.bytes", "fetch.max.byts", "7: option kafka.fetch.max.byts is not known"),
    ("spark:\n", "concurrency: 0\nspark:\n", "2: concurrency is '0': input should be greater th"),
    ("spark:\n", "concurrency: many\nspark:\n", "2: concurrency is 'many': input should be a va"),
]
IN_JOB = [
    ("    startingO", "    subscribe: b\n    startingO", "4: source.options: subscribe belongs be"),
    ("    startingO", "    Assign: '{}'\n    startingO", "4: source.options: Assign belongs besi"),
    ("    startingO", "    subscribepattern: b\n    startingO", "4: source.options: subscribepat"),
    (
        "    startingO",
        "    StartingOffsets: latest\n    startingO",
        "4: source.options: startingOffsets stands here a second time, as StartingOffsets",
    ),
    ("trigger:", "tigger:", "12: the key tigger is not known: did you mean trigger?"),
    ("  cluster:", "  claster:", "2: the key source.claster is not known: did you mean cluster?"),
    ("  cluster: local", "  cluster: lokal", "2: conf/kfetch.yml has no cluster lokal: did you m"),
    ("  subscribe:", "  topics:", "3: the key source.topics is not known: did you mean subscribe?"),
    ("  subscribe:", "  topic:", "3: the key source.topic is not known: did you mean subscribe?"),
    ("    startingOffsets", "    topics", "5: option topics is not known: did you mean subscribe?"),
    ("  subscribe: clicks\n", "", "1: source: exactly one of assign, subscribe, subs"),
    ("source:\n", "sources:\n", "2: sources.cluster is 'local': input should be a valid dictiona"),
    ("format: delta", "format: dleta", "10: sink.format is 'dleta': did you mean delta?"),
    ("  path: ${storage}/clicks/table\n", "", "9: sink: path is missing, or table in place of it"),
    ("  path: $", "  table: t\n  path: $", "9: sink: path is missing, or table in place of it"),
    ("  path: ${storage}/clicks/table", "  table: a b", "11: sink.table is 'a b': string should m"),
    ("  path:", "  mode: upsert\n  path:", "11: sink.mode is 'upsert': known here: append, merge"),
    ("  path:", "  mode: merge\n  path:", "9: sink: mode merge needs keys: the columns that name"),
    ("  path:", "  keys: id\n  path:", "9: sink: keys belongs to mode: merge"),
    ("  path:", "  options: {mergeSchema: yes}\n  path:", "9: sink: options: mergeSchema must be"),
    ("  path:", "  latestBy: ts\n  path:", "9: sink: latestBy belongs to mode: merge"),
    ("  path:", "  deleteWhen: gone\n  path:", "9: sink: deleteWhen belongs to mode: merge"),
    (
        "  path:",
        "  mode: merge\n  keys: id\n  path:",
        "11: sink.latestBy is missing: its default, offset, orders the rows of one partition only",
    ),
    ("  path:", "  partitionBy: [a, a]\n  path:", "9: sink: partitionBy names a column twice"),
    (
        "  path:",
        "  partition: a\n  path:",
        "11: the key sink.partition is not known: did you mean p",
    ),
    (
        "  path:",
        "  deadLetters: {path: x}\n  path:",
        "1: deadLetters need source.decode, or valueFo",
    ),
    (
        "  path:",
        "  deadLetters: {paht: x}\n  path:",
        "11: the key sink.deadLetters.paht is not know",
    ),
    ("  path:", "  deadLetters: {}\n  path:", "11: sink.deadLetters: path is missing, or table in"),
    (
        "  options:",
        "  decode: {format: avro, fields: a INT}\n  options:",
        "4: source.decode.format i",
    ),
    ("  options:", "  decode: {format: json}\n  options:", "4: source.decode.fields is missing"),
    (
        "  options:",
        "  decode: {fields: a INT, into: a-b}\n  options:",
        "4: source.decode.into is 'a",
    ),
    (
        "  options:",
        "  decode: {fields: 'id BIGINTT, s ARRAY<INT>'}\n  options:",
        "4: decode.fields is no schema: BIGINTT is no type of Spark: did you mean BIGINT?",
    ),
    (
        "  options:",
        "  decode: {fields: 'a STRUCT<b: MAP<INT, STRNG>>'}\n  options:",
        "4: decode.fields is no schema: STRNG is no type of Spark: did you mean STRING?",
    ),
    (
        "  options:",
        "  decode: {fields: 'id, page STRING'}\n  options:",
        "4: decode.fields is no schema: id has no type: write id STRING, say",
    ),
    (
        "  options:",
        "  decode: {fields: 'a INT, b INTERVAL DAY'}\n  options:",
        "4: the type INTERVAL in decode.fields is not built yet: use STRING for this field and",
    ),
    (
        "  options:",
        "  decode: {fields: a INT, options: {allowComments: 'true'}}\n  options:",
        "4: source.decode: options: allowComments is an option of Spark's from_json, and kfetch",
    ),
    (
        "  options:",
        "  decode:\n    fields: a INT\n    options:\n      mode: DROPMALFORMED\n  options:",
        "7: valueMode=DROPMALFORMED is not built yet: use deadLetters=column",
    ),
    (
        "  options:",
        "  decode:\n    fields: a TIMESTAMP\n    options: {timeZone: Mars}\n  options:",
        "6: option valueTimeZone is 'Mars', which is no known time zone",
    ),
    ("2s", "soon", "13: trigger.processingTime is 'soon': must be a number and a unit, as in 10 s"),
    ("processingTime: 2s", "{}", "12: trigger: must be availableNow, continuous, processingTime w"),
    ("processingTime: 2s", "cron: 5 o'clock", '13: trigger.cron is "5 o\'clock": not a cron expr'),
    ("processingTime: 2s", "cron: 99 * * * *", "13: trigger.cron is '99 * * * *': not a cron expr"),
    (
        "processingTime: 2s",
        'cron: "* * */20 * 1L"',
        "13: trigger.cron is '* * */20 * 1L': this mom",
    ),
    ("2s", "2s\n  timezone: UTC", "12: trigger: timezone and overlap belong to cron"),
    (
        "processingTime: 2s",
        "cron: 0 * * * *\n  timezone: Europe/Berlni",
        "14: trigger.timezone is ",
    ),
    ("processingTime: 2s", "cron: 0 * * * *\n  overlap: kill", "14: trigger.overlap is 'kill': kn"),
    ("trigger:", "after: [other]\ntrigger:", "12: after names other, and there is no such job: "),
    ("trigger:", "after: clicks\ntrigger:", "12: after names clicks, and that job (every 2 sec"),
    ("processingTime: 2s", "cron: 0 * * * *\nafter: x", "1: after and cron exclude each other"),
    (
        "trigger:",
        "restart: {initial: 5}\ntrigger:",
        "12: restart.initial is '5': must be a number and",
    ),
    (
        "trigger:",
        "restart: {initial: 0s}\ntrigger:",
        "12: restart.initial is '0s': must be longer t",
    ),
    ("trigger:", "restart: {initial: 1h}\ntrigger:", "12: restart: max is shorter than initial"),
    (
        "trigger:",
        "restart: {factor: 0.5}\ntrigger:",
        "12: restart.factor is '0.5': input should be g",
    ),
    (
        "trigger:",
        "restart: {attempts: -1}\ntrigger:",
        "12: restart.attempts is '-1': input should be",
    ),
    (
        "trigger:",
        "restart: {retries: 1}\ntrigger:",
        "12: the key restart.retries is not known: kno",
    ),
    (
        "trigger:",
        "health: {lagRecords: x}\ntrigger:",
        "12: health.lagRecords is 'x': input should b",
    ),
    (
        "trigger:",
        "health: {lagSecond: 1}\ntrigger:",
        "12: the key health.lagSecond is not known: di",
    ),
    (
        "trigger:",
        "health: {noProgress: 1}\ntrigger:",
        "12: health.noProgress is '1': must be a number",
    ),
    (
        "trigger:",
        "enabled: perhaps\ntrigger:",
        "12: enabled is 'perhaps': input should be a valid b",
    ),
    ("trigger:", "spark: {master: x}\ntrigger:", "12: spark: master is no Spark setting: they sta"),
    (
        "trigger:",
        "stopWithin: 1 fortnight\ntrigger:",
        "12: stopWithin is '1 fortnight': must be a n",
    ),
    (
        "  options:",
        "  decode: {fields: a INT}\n  options:\n    valueSchema: a INT\n    valueformat: JSON",
        "6: decode is a synonym for valueFormat=json, so it excludes option valueSchema: remove",
    ),
    (
        "  options:",
        "  decode: {fields: a INT}\n  options:\n    valueSchema: '{}'\n    valueformat: Avro",
        "6: decode is a synonym for valueFormat=json, so it excludes option valueSchema: remove",
    ),
    ("startingOffsets", "startingOfsets", "5: option starting"),
    ("earliest", "soonest", "5: option startingOffsets: Expected e.g. "),
    ("true", "maybe", "6: option includeHeaders is 'maybe', but it must be true, fals"),
    (
        "  options:",
        "  decode: {fields: a INT}\n  options:\n    valueDescriptor: a\n    valueMessage: M\n"
        "    valueFormat: protobuf",
        "8: decode is a synonym for valueFormat=json, so it excludes option valueFormat: remove",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: json\n    valueSchema: a FOO",
        "6: valueSchema is no schema: FOO is no type of Spark: ",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: json\n    valueSchema: t TIMESTAMP\n    valueTimeZone: Mars",
        "7: option valueTimeZone ",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: json\n    valueSchema: offset INT\n    valueFields: flat",
        "7: valueFields=flat makes the field offset a column, and the query has another column of ",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: avro\n    valueSchema: clicks.avsc",
        "6: valueSchema looks like the path of a file (clicks.avsc), and it must be the text of ",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: avro\n    valueSchema: ${file:clicks.avsc}",
        "6: {conf}/jobs/clicks.avsc cannot be read: No such file or directory: the path starts at ",
    ),
    (
        "  options:",
        "  options:\n    valueFormat: protobuf\n    valueMessage: M\n    valueDescriptor: m.desc",
        "7: the file of option valueDescriptor can't be read on the driver: {conf}/m.desc: No such",
    ),
    ("${storage}", "${storrage}", "11: ${storrage} is unknown: did you mean storage?"),
    ("sql: SELECT", "sql: [SELECT]\n  sgl: SELECT", "8: transform.sql: input should be"),
    (
        "  sql: SELECT * FROM source",
        "  {}",
        "7: transform: must be sql with a query, or module:fun",
    ),
    (
        "\n  sql: SELECT * FROM source",
        " nothing",
        "7: transform.python is 'nothing': string should",
    ),
    (
        "\n  sql: SELECT * FROM source",
        " shop:clicks",
        "7: there is no module shop in conf and .: c",
    ),
    (
        "\n  sql: SELECT * FROM source",
        " kfetch_jobs:clicks",
        "7: kfetch itself has a package kfetch_jobs: give your module another name",
    ),
    (
        "\n  sql: SELECT * FROM source",
        " brokn:f",
        "7: there is no module brokn in conf and .: did you mean broken?",
    ),
    ("\n  sql: SELECT * FROM source", " code:clikcs", "7: conf/code.py has no function clikcs: di"),
    ("\n  sql: SELECT * FROM source", " broken:f", "7: conf/broken.py:2: not Python: "),
]


def _mistakes(project: Path, file: str, old: str, new: str) -> tuple[str, ...]:
    path = project / "conf" / file
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new, 1))
    (project / "conf" / "code.py").write_text("def clicks(source):\n    return source\n")
    (project / "conf" / "broken.py").write_text("def f(source):\n    return (\n")
    with pytest.raises(ConfigError) as told:
        checked(config.load(config.find(project), ENVIRON))
    return told.value.mistakes


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [("kfetch.yml", *row) for row in IN_PROJECT] + [("jobs/clicks.yml", *row) for row in IN_JOB],
)
def test_mistakes(project: Path, file: str, old: str, new: str, sentence: str) -> None:
    """Each mistake is one sentence with its file, its line and what to do."""
    mistakes = _mistakes(project, file, old, new)
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    expected = f"conf/{file}:{sentence.replace('{conf}', str(project / 'conf'))}"

    assert f"{mistakes[0]}{more}"[: len(expected)] == expected
    assert "\n" not in mistakes[0]


def test_dead_letters_need_places(project: Path) -> None:
    """A dead letter without its place is of little use. The sentence names the missing columns."""
    text = JOB.replace(
        "  options:", "  decode: {fields: a INT}\n  options:\n    columns: value,offset,partition"
    ).replace("sink:\n", "sink:\n  deadLetters: {path: dead}\n")
    (mistake,) = _mistakes(project, "jobs/clicks.yml", JOB, text)

    assert (
        "conf/jobs/clicks.yml:6: sink.deadLetters needs the place of each record: add topic, "
        "timestamp to option columns"
    ) == mistake


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("", None),
        (
            "    columns: value,topic,partition,offset,timestamp\n",
            "value,topic,partition,offset,timestamp,deadLetter",
        ),
        (
            "    columns: deadLetter,topic,partition,offset,timestamp,value\n",
            "deadLetter,topic,partition,offset,timestamp,value",
        ),
    ],
)
def test_dead_letters_of_typed_values(project: Path, columns: str, expected: str | None) -> None:
    """The source gives them as a column. The job sets the options for it."""
    form = "    valueFormat: JSON\n    valueSchema: id INT\n"
    text = JOB.replace("  options:\n", f"  options:\n{form}{columns}")
    text = text.replace("sink:\n", "sink:\n  deadLetters: {path: dead}\n")
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    options = config.load(config.find(project), ENVIRON).job("clicks").source_options()

    assert "column" == options["deadLetters"]
    assert expected == options.get("columns")


_THREE = """\
source:
  cluster: lokal
  topics: clicks
  options:
    startingOfsets: earliest
    includeHeaders: perhaps
transform: nowhere:f
sink:
  path: ${storage}/clicks/table
trigger: sometimes
"""


def test_all_mistakes_of_a_file(project: Path) -> None:
    """Keys, values, options, the cluster and the transform: one look names every mistake."""
    mistakes = _mistakes(project, "jobs/clicks.yml", JOB, _THREE)

    assert [2, 3, 5, 6, 7, 10] == sorted(int(one.split(":")[1]) for one in mistakes)
    assert len(mistakes) == 6


def test_all_placeholders_of_a_file(project: Path) -> None:
    """Each variable that is not set is named, and each key that stands twice."""
    text = JOB.replace("local", "${env:A}").replace("clicks\n", "${env:B}\n", 1) + "trigger: x\n"
    mistakes = _mistakes(project, "jobs/clicks.yml", JOB, text)

    assert [2, 3, 14] == [int(one.split(":")[1]) for one in mistakes]


def test_a_stand_in_is_no_mistake(project: Path) -> None:
    """Where a part is invalid, only that is said: nothing about the part in its place."""
    text = JOB.replace("  subscribe: clicks\n", "")
    mistakes = _mistakes(project, "jobs/clicks.yml", JOB, text)

    (mistake,) = mistakes
    assert mistake.startswith("conf/jobs/clicks.yml:1: source: exactly one of")


def test_a_bare_directory_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any directory beside the packages on Python's path is a package to Python, without code; of
    one that has files, these are modules."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "inside.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    assert str(functions.mistake("bare:f", [])).startswith("there is no module bare in ")
    assert str(functions.mistake("bare.other:f", [])).startswith("there is no module bare.other ")
    assert functions.mistake("bare.inside:f", []) is None
    assert functions.mistake("yaml.loader:f", []) is None


def test_where_a_function_may_stand(tmp_path: Path) -> None:
    """A function counts wherever the module's top level names it, and not within another one."""
    (tmp_path / "code.py").write_text(
        "import sys\nif sys.version_info > (3,):\n    def below_if(): ...\n"
        "try:\n    from a import b as imported\nexcept ImportError:\n    imported = None\n"
        "annotated: object = print\none, two = print, print\n"
        "def outer():\n    inner = print\n"
    )
    found = {
        name: functions.mistake(f"code:{name}", [tmp_path]) is None
        for name in ("below_if", "imported", "annotated", "two", "outer", "inner")
    }

    assert found == dict.fromkeys(found, True) | {"inner": False}


def test_a_file_that_can_not_be_read_is_said_to_be_that(tmp_path: Path) -> None:
    """Nobody is told that such a file is not Python."""
    (tmp_path / "code.py").touch()
    with patch.object(Path, "read_bytes", side_effect=PermissionError(13, "Permission denied")):
        said = functions.mistake("code:f", [tmp_path])

    assert said is not None
    assert said.endswith("code.py can't be read: Permission denied")


def test_what_is_wrong_for_every_job_is_told_once(project: Path) -> None:
    """An address without a port is one mistake, however many jobs read from there."""
    clicks = project / "conf" / "jobs" / "clicks.yml"
    (clicks.parent / "b.yml").write_text(clicks.read_text())
    found = config.load(config.find(project), ENVIRON | {"SERVERS": "nowhere"})

    (mistake,) = (told for told in found.jobs_and_mistakes()[1] if "bootstrap.servers" in told)
    assert mistake.startswith("conf/kfetch.yml:")


def test_at_least_forty() -> None:
    """The table has as many mistakes as were promised, and no two rows are the same."""
    assert len({(old, new) for old, new, _ in IN_PROJECT + IN_JOB}) >= 40
    assert len(IN_PROJECT + IN_JOB) == len({(old, new) for old, new, _ in IN_PROJECT + IN_JOB})


IN_ENVIRONMENT = [
    ("{}", "prdo", "there is no environment prdo in conf/env: did you mean prod?"),
    ("sparc: {}", "prod", "conf/env/prod.yml:1: the key sparc is not known: did you mean spark?"),
    ("clusters: {new: {a: 1}}", "prod", "conf/kfetch.yml:4: cluster new needs bootstrap.servers"),
    (
        "clusters:\n  local:\n    check.crcs: maybe",
        "prod",
        "conf/env/prod.yml:3: option check.crcs is 'maybe', but it must be true or false",
    ),
]


@pytest.mark.parametrize(("text", "name", "sentence"), IN_ENVIRONMENT)
def test_mistakes_in_an_environment(project: Path, text: str, name: str, sentence: str) -> None:
    """An environment's file has its mistakes told as the others have."""
    (project / "conf" / "env").mkdir()
    (project / "conf" / "env" / "prod.yml").write_text(text)

    with pytest.raises(ConfigError, match="^" + re.escape(sentence)):
        checked(config.load(config.find(project), ENVIRON, name))


def test_a_mistake_beside_those_between_jobs(project: Path) -> None:
    """An invalid file hides no mistake between the other ones. It still is a job, so ``after`` may
    name it."""
    for name, more in (("a", "after: [b, bb]"), ("b", "x: 1"), ("c", "checkpoint: data/clicks")):
        (project / "conf" / "jobs" / f"{name}.yml").write_text(f"{JOB}{more}\n")
    (project / "conf" / "jobs" / "clicks.yml").write_text(f"{JOB}checkpoint: data/clicks\n")

    _, mistakes = config.load(config.find(project), ENVIRON).jobs_and_mistakes()

    assert ["b.yml:14: the key x", "a.yml:14: after names bb, and there is no such job"] == [
        mistakes[0][len("conf/jobs/") :][:19],
        mistakes[1][len("conf/jobs/") :][:50],
    ]
    assert any("clicks.yml:14: job c has this checkpoint too" in one for one in mistakes)


@pytest.mark.parametrize("other", ["data/one", "file:{}/conf/data/one"])
def test_a_checkpoint_of_two_jobs(project: Path, other: str) -> None:
    """Two jobs on one checkpoint are an error at the second, also if one names it by a URI."""
    for name, checkpoint in (("a", "data/one"), ("b", other.format(project))):
        text = JOB + f"checkpoint: {checkpoint}\n"
        (project / "conf" / "jobs" / f"{name}.yml").write_text(text)

    with pytest.raises(ConfigError, match=r"^conf/jobs/b\.yml:14: job a has this checkpoint too"):
        checked(config.load(config.find(project), ENVIRON))


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        ("subscribe: clicks", True),
        ("subscribe: orders, clicks", True),
        ("subscribePattern: o.*", True),
        ("subscribe: orders", False),
    ],
)
def test_dead_letters_of_two_jobs(project: Path, other: str, refused: bool) -> None:
    """A run that repeats a micro-batch replaces the dead letters of its records, and the table does
    not tell whose they are. So no other job may write such letters of the same topic there. A
    pattern may match any topic."""
    for name, topics, letters in (
        ("a", "subscribe: clicks", "dead"),
        ("b", other, f"file:{project}/conf/dead"),
    ):
        text = JOB.replace("subscribe: clicks", topics).replace("/clicks/", f"/{name}/")
        text = text.replace("  options:", f"  decode: {{fields: {name} INT}}\n  options:")
        text = text.replace("sink:\n", f"sink:\n  deadLetters: {{path: '{letters}'}}\n")
        (project / "conf" / "jobs" / f"{name}.yml").write_text(text)

    _, mistakes = config.load(config.find(project), ENVIRON).jobs_and_mistakes()

    sentence = (
        "conf/jobs/b.yml:11: job a has this table of dead letters, too, and may read the same "
        "topic, so one job would delete dead letters of the other: give this job a table of its own"
    )
    assert [sentence] * refused == mistakes
