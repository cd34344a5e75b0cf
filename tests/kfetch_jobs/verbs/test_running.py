"""``kfetch run``: its help, and its exit code for a mistake."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kfetch.admin import cli


@pytest.mark.parametrize("verb", ["run", "demo"])
def test_the_verbs_teach(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The help of each verb has an example that can be pasted."""
    monkeypatch.setattr("sys.argv", ["kfetch", verb, "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert f" kfetch {verb}" in capsys.readouterr().out.split("Example:")[1]


def test_a_mistake_in_a_file_exits_with_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``kfetch run`` finds it before Spark is even loaded."""
    (tmp_path / "kfetch.yml").write_text("storrage: x\nclusters: {}\n")
    monkeypatch.setattr("sys.argv", ["kfetch", "run", "clicks", "--project", "kfetch.yml"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert 2 == left.value.code
    assert capsys.readouterr().err.startswith("kfetch: kfetch.yml:1: the key storrage is not known")
    assert "pyspark" not in sys.modules
