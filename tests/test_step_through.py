"""The tutorial docs/explanation/step-through.md is true: its commands print what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch import decoding
from tests.kfetch.decoders import DECODERS
from tests.life_of_a_record import Debugger, main

PAGE = Path(__file__).parent.parent / "docs/explanation/step-through.md"
PROMPT = "(Pdb) "


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder of the tutorial: no machine code."""
    monkeypatch.setattr(decoding, "kernel", lambda: DECODERS["reference"])


def session() -> Iterator[tuple[str, str]]:
    """Each command of the page, with what the page shows below it."""
    for block in re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for step in block.split(PROMPT)[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown


def test_the_tutorial() -> None:
    """Every command of the page, in the page's order, prints what the page shows."""
    commands = [command for command, _ in session()]
    typed = io.StringIO("".join(f"{command}\n" for command in commands))
    printed = io.StringIO()
    debugger = Debugger(stdin=typed, stdout=printed, nosigint=True, readrc=False)
    debugger.use_rawinput = 0
    rows = debugger.run_main()
    _, *answers = printed.getvalue().split(PROMPT)

    assert [f"{command}\n{shown}" for command, shown in session()] == [
        f"{command}\n{answer}" for command, answer in zip(commands, answers, strict=True)
    ]
    assert [b"hello", b"again"] == [row["value"] for row in rows]


def test_without_a_debugger() -> None:
    """The life of two records ends with two rows."""
    rows = list(main())

    assert [(b"ann", b"hello", 0), (b"ann", b"again", 1)] == [
        (row["key"], row["value"], row["offset"]) for row in rows
    ]
