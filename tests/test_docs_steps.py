"""docs/explanation/step-through.md is true: its program prints that, and its functions exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tools.record_life import steps

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])
PAGE = (Path(__file__).parent.parent / "docs/explanation/step-through.md").read_text()
STOPS = re.findall(r"(?m)^\| \d+ \| `([\w.]+)`", PAGE)


def test_the_program_prints_what_the_page_shows() -> None:
    """``python -m tools.record_life`` shows starts, ends and rows as on the page."""
    shown = "".join(f"{line}\n" for line in steps())

    assert f"```text\n{shown}```" in PAGE


@pytest.mark.parametrize("name", STOPS)
def test_a_breakpoint_names_a_function(name: str) -> None:
    """Each stop is a function of a module that the page imports."""
    (module,) = re.findall(r"^(kfetch[a-z_.]*?)(?=\.[A-Z]|\.[a-z_]+$)", name)
    found = import_module(module)
    for part in name.removeprefix(f"{module}.").split("."):
        found = getattr(found, part)

    assert callable(found)
    assert re.search(rf"import .*{re.escape(module)}\b", PAGE)


def test_there_are_ten_stops() -> None:
    """The table is read whole."""
    assert 10 == len(STOPS)
