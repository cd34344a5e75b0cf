"""The command line, in this process."""

from __future__ import annotations

import sys

import pytest

from kfetch import cli


class Told:
    """What a command printed, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["kfetch", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        said = self._capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err
