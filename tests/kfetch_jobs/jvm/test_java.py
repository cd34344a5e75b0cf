"""Which Java runs Kafka and Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs.errors import JavaError
from kfetch_jobs.jvm.java import find_java


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("KFETCH_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin")
    monkeypatch.setattr("shutil.which", lambda name: _which(tmp_path / "path" / name))
    return tmp_path


def _which(path: Path) -> str | None:
    return str(path) if path.exists() else None


def fake_java(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_no_java(machine: Path) -> None:
    """Without any Java the sentence says what to install or set."""
    with pytest.raises(
        JavaError, match=r"no Java on .* install Java 17 .* KFETCH_JAVA or JAVA_HOME"
    ):
        find_java()


@pytest.mark.parametrize("version", ['"11.0.2"', '"1.8.0_402"', '"16"'])
def test_an_old_java(machine: Path, version: str) -> None:
    """A Java before 17 is named with its version."""
    fake_java(machine / "path" / "java", f"openjdk version {version}")
    with pytest.raises(JavaError, match=r"java is Java (8|11|16), and Kafka 4 needs 17"):
        find_java()


def test_which_java_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KFETCH_JAVA (an executable or a home) goes before JAVA_HOME, which goes before PATH."""
    on_path = fake_java(machine / "path" / "java", 'version "17"')
    assert find_java() == str(on_path)
    home = fake_java(machine / "home" / "bin" / "java", 'version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert find_java() == str(home)
    monkeypatch.setenv("KFETCH_JAVA", str(on_path))
    assert find_java() == str(on_path)


def test_a_variable_that_points_nowhere(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variable is an error, not a reason to take another Java."""
    fake_java(machine / "path" / "java", 'version "17"')
    monkeypatch.setenv("JAVA_HOME", str(machine / "gone"))
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*gone, and no Java is there"):
        find_java()


def test_a_java_that_says_nothing(machine: Path) -> None:
    """An executable that names no version is refused."""
    fake_java(machine / "path" / "java", "hello")
    with pytest.raises(JavaError, match="names no version"):
        find_java()
