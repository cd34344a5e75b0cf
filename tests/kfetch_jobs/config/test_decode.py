"""``source.decode`` of older job files: a synonym for options of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.config import Job
from kfetch_jobs.config.source_options import option_warnings
from tests.kfetch_jobs.projects import ENVIRON, JOB

OLD = Path(__file__).parents[2] / "vectors" / "upgrade" / "project"


def job(project: Path, text: str) -> Job:
    """The job ``clicks`` with this file."""
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    return config.load(config.find(project), ENVIRON).job("clicks")


def decoding(decode: str, options: str = "") -> str:
    return JOB.replace("  options:\n", f"  decode: {decode}\n  options:\n{options}")


def typed(made: Job, zone: str | None = None) -> dict[str, str]:
    """The options that decode values."""
    names = ("value", "deadLetters", "columns")
    options = made.source_options(zone=zone)
    return {name: text for name, text in options.items() if name.startswith(names)}


@pytest.mark.parametrize(
    ("decode", "options", "expected"),
    [
        ("{fields: a INT}", "", {"valueMode": "FAILFAST"}),
        ("{fields: a INT, options: {MODE: permissive}}", "", {"valueMode": "FAILFAST"}),
        ("{fields: a INT, options: {timezone: UTC}}", "", {"valueMode": "FAILFAST"}),
        ("{fields: a INT}", "    valuemode: PERMISSIVE\n", {"valuemode": "PERMISSIVE"}),
        ("{fields: a INT}", "    columns: value\n", {"valueMode": "FAILFAST", "columns": "value"}),
    ],
)
def test_the_options(project: Path, decode: str, options: str, expected: dict[str, str]) -> None:
    """A value that does not fit fails the job, as before. The job's own options stay."""
    made = job(project, decoding(decode, options))

    assert {"valueFormat": "json", "valueSchema": "a INT"} | expected == typed(made)
    assert not option_warnings(made)


def test_dead_letters(project: Path) -> None:
    """The source gives them. A mode that fails leaves none."""
    letters = decoding("{fields: a INT}").replace("sink:\n", "sink:\n  deadLetters: {path: d}\n")
    expected = {"valueFormat": "json", "valueSchema": "a INT", "deadLetters": "column"}

    assert expected | {"valueMode": "PERMISSIVE"} == typed(job(project, letters))


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ("t TIMESTAMP", "", "UTC"),
        ("t TIMESTAMP", "spark: {spark.sql.session.timeZone: Asia/Tokyo}\n", "Asia/Tokyo"),
        ("s STRUCT<t: TIMESTAMP_LTZ>", "", "UTC"),
        ("t TIMESTAMP_NTZ, timestamp STRING", "", None),
    ],
)
def test_the_zone(project: Path, fields: str, settings: str, expected: str | None) -> None:
    """Times without a zone have that of Spark's session, or the one of ``decode.options``."""
    made = job(project, decoding(f"{{fields: '{fields}'}}") + settings)
    assert expected == typed(made).get("valueTimeZone")
    assert (expected and "Asia/Dubai") == typed(made, "Asia/Dubai").get("valueTimeZone")
    assert not option_warnings(made)

    named = decoding(f"{{fields: '{fields}', options: {{timeZone: Europe/Paris}}}}")
    chosen = typed(job(project, named + settings), "Asia/Dubai").get("valueTimeZone")
    assert (expected and "Europe/Paris") == chosen


@pytest.mark.parametrize("name", ["clicks", "daily"])
def test_files_of_the_last_release(name: str) -> None:
    """They are valid, and the source decodes what Spark decoded."""
    project = config.load(OLD / "kfetch.yml", {"KFETCH_BOOTSTRAP": "h:1", "KFETCH_STORAGE": "s"})
    made = project.job(name)

    fields = "id BIGINT, page STRING, action STRING"
    letters = {"deadLetters": "column"} if name == "clicks" else {}
    mode = {"valueMode": "PERMISSIVE" if letters else "FAILFAST"}
    assert {"valueFormat": "json", "valueSchema": fields} | mode | letters == typed(made)


def test_names_of_errors(project: Path) -> None:
    """An error of the source names the key that the file has."""
    sentence = "the value does not fit valueSchema: field a is no INT"

    assert "fit decode.fields:" in job(project, decoding("{fields: a INT}")).user_sentence(sentence)
    plain = JOB.replace(
        "  options:\n", "  options:\n    valueFormat: json\n    valueSchema: a INT\n"
    )
    assert "fit valueSchema:" in job(project, plain).user_sentence(sentence)
