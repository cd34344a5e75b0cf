"""The command line as a whole: its help and its completion."""

from __future__ import annotations

import pytest

from kfetch.admin import cli
from tests.kfetch_jobs.commands import Command


@pytest.mark.parametrize(
    "verb",
    [
        *("init", "validate", "schema", "run", "up", "down", "start", "stop", "restart"),
        *("pause", "resume", "list", "status", "history", "logs"),
        *("plan", "lag", "offsets show", "doctor"),
    ],
)
def test_every_verb_teaches(kfetch: Command, verb: str) -> None:
    """The help of each verb has an example to paste."""
    assert f" kfetch {verb}" in kfetch(*verb.split(), "--help")[1].split("Example:")[1]


def test_the_shell_completes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scripts of --install-completion ask for: the verbs that begin so."""
    asked = {"_KFETCH_COMPLETE": "complete_bash", "COMP_WORDS": "kfetch res", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["kfetch"])
    with pytest.raises(SystemExit):
        cli.main()

    assert ["restart", "resume"] == capfd.readouterr().out.split()
