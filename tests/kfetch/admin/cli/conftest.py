"""The command ``kfetch`` of the distribution kfetch alone, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kfetch.admin import cli

Kfetch = Callable[..., tuple[int, str, str]]


@cache
def _alone() -> Callable[..., Any]:
    return cli.build([])


@pytest.fixture
def kfetch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kfetch:
    """Runs the command without verbs of other distributions: exit code, stdout, stderr."""
    monkeypatch.setattr(cli, "command", _alone)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kfetch", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run
