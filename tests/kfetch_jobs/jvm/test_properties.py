"""The file with Spark's settings: nobody else reads it, and Java reads what was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.jvm import properties
from kfetch_jobs.jvm.properties import properties_text, settings_file, settings_path

SECRET = "hunter22 \\ = : # ! \u00e4\U0001f511"
SETTINGS = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.x": "a\nb\t", "spark.y": ""}


@pytest.mark.parametrize("before", [None, "--packages a:b:1 pyspark-shell"])
def test_the_file_is_private_and_short_lived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Only its owner reads it, and only while Spark starts. No argument has a setting."""
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    if before:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", before)
    path = tmp_path / "a b" / ".spark.properties"
    path.parent.mkdir()
    path.write_text("of a killed run")
    path.chmod(0o644)
    with settings_file(path, SETTINGS):
        arguments = os.environ["PYSPARK_SUBMIT_ARGS"]
        assert 0o600 == path.stat().st_mode & 0o777
        assert "of a killed run" not in path.read_text()
    assert f"--properties-file '{path}'" in arguments
    assert arguments.endswith(before or " pyspark-shell")
    assert "hunter22" not in arguments
    assert before == os.environ.get("PYSPARK_SUBMIT_ARGS")
    assert not path.exists()


def test_an_interrupted_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends the start, the secrets don't stay on the disk."""
    path = tmp_path / ".spark.properties"

    def interrupted(settings: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(properties, "properties_text", interrupted)
    with pytest.raises(KeyboardInterrupt), settings_file(path, SETTINGS):
        pytest.fail("Spark must not start")
    assert not path.exists()


def test_each_spark_has_its_own_file() -> None:
    """The supervisor removes the file of a run, and not that of a command in the same directory."""
    assert Path("a/.spark.properties") == settings_path(Path("a/spark.log"))
    assert Path("a/.offsets.properties") == settings_path(Path("a/offsets.log"))


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_line_for_each_setting(settings: dict[str, str]) -> None:
    """Whatever a text has, it ends no line early, and all of the file is ASCII."""
    text = properties_text(settings)

    assert text.isascii()
    assert len(settings) == text.count("\n")
    assert not set(text) & {"\r", "\f"}
