"""Runs the command ``kfetch`` in the process of the test."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from kfetch.admin import cli


class Command:
    """Runs ``kfetch`` with arguments. A call returns the exit code, stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["kfetch", *arguments])
        with pytest.raises(SystemExit) as exited:
            cli.main()
        captured = self._capsys.readouterr()
        return int(exited.value.code or 0), captured.out, captured.err

    def plan(self, expected_code: int = 0) -> Any:
        """Returns the output of ``kfetch plan clicks --json``, parsed."""
        code, out, err = self("plan", "clicks", "--json")
        assert expected_code == code, err
        return json.loads(out)
