"""The command ``kfetch`` of the distribution kfetch alone, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from kfetch.admin import cli

Kfetch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kfetch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kfetch:
    """Runs the command without verbs of other distributions: exit code, stdout, stderr."""
    alone = cli.build([])
    monkeypatch.setattr(cli, "command", lambda: alone)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kfetch", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run
