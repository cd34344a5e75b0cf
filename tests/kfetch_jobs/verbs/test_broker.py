"""The command line's own part: help, errors as one line, exit codes. No broker is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch.admin import cli
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.jvm import maven
from kfetch_jobs.verbs.broker import parse_properties


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["kfetch", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert isinstance(left.value.code, int)
    return left.value.code


Out = pytest.CaptureFixture[str]


def test_help_names_the_verbs(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    """``kfetch --help`` lists the verbs."""
    assert run(["--help"], monkeypatch) == 0
    assert "broker" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["start", "status", "stop"])
def test_every_verb_teaches_by_example(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The help of each verb has an example to paste."""
    assert run(["broker", verb, "--help"], monkeypatch) == 0
    assert f"  kfetch broker {verb}" in capsys.readouterr().out.split("Example:")[1]


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    """``--version`` prints the package's version."""
    assert run(["--version"], monkeypatch) == 0
    assert capsys.readouterr().out.startswith("kfetch 0.")


def test_an_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    """A JobsError becomes ``kfetch: sentence`` on stderr and an exit code, no traceback."""
    assert run(["broker", "status", "--dir", str(tmp_path)], monkeypatch) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"kfetch: {tmp_path} holds no broker")
    assert said.err.count("\n") == 1


def test_a_foreign_directory_is_the_users_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """What only the user can put right exits with 2."""
    monkeypatch.setattr("kfetch_jobs.jvm.java.find_java", lambda: "java")
    monkeypatch.setattr(maven, "is_cached", lambda *_: True)
    (tmp_path / "file").touch()
    assert run(["broker", "start", "--dir", str(tmp_path)], monkeypatch) == 2
    assert "has file, which no broker of kfetch has written" in capsys.readouterr().err


def test_properties_are_split_at_the_first_equals_sign() -> None:
    """A value may contain equals signs and be empty."""
    assert parse_properties(["a=b=c", "d="]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("line", ["a", "=b", " =b", ""])
def test_a_property_needs_key_and_equals_sign(line: str) -> None:
    """Any other text is refused, and the error quotes it."""
    with pytest.raises(ConfigError, match="not of the form key=value"):
        parse_properties([line])
