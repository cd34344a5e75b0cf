"""The documentation is true: its code runs, its generated parts are current."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from kfetch.session.transitions import diagram
from kfetch_jobs.config import reference
from kfetch_jobs.metrics import table as metrics
from kfetch_jobs.verbs import reference as commands

ROOT = Path(__file__).parent.parent


def between(text: str, marker: str) -> str:
    """What stands between ``<!-- marker -->`` and ``<!-- /marker -->``."""
    found = re.search(rf"<!-- {marker} -->\n(.*?)<!-- /{marker} -->", text, re.DOTALL)
    assert found, f"no <!-- {marker} --> … <!-- /{marker} -->"
    return found[1]


def test_architecture_code_runs() -> None:
    """The example in ARCHITECTURE.md prints what it says."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    example = doctest.DocTestParser().get_doctest(text, {}, "ARCHITECTURE.md", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)

    assert len(example.examples) > 5
    assert 0 == runner.failures


def test_architecture_diagram_is_drawn_from_the_table() -> None:
    """ARCHITECTURE's diagram is what ``python -m kfetch.session.transitions`` prints."""
    drawn = between((ROOT / "ARCHITECTURE.md").read_text(), "transitions")

    assert f"```mermaid\n{diagram().strip()}\n```" == drawn.strip()


def test_keys_of_files_are_drawn_from_the_models() -> None:
    """JOBS.md's tables of keys are what ``python -m kfetch_jobs.config.reference`` prints."""
    assert reference.tables() == between((ROOT / "JOBS.md").read_text(), "keys")


def test_every_metric_is_shown() -> None:
    """JOBS.md's table of metrics is what ``python -m kfetch_jobs.metrics.table`` prints."""
    assert metrics.table() == between((ROOT / "JOBS.md").read_text(), "metrics")


def test_every_command_is_shown() -> None:
    """JOBS.md shows each verb's help as ``python -m kfetch_jobs.verbs.reference`` prints it."""
    shown = between((ROOT / "JOBS.md").read_text(), "commands")

    assert f"```text\n{commands.text()}```\n" == shown


def test_quickstart_is_two_commands() -> None:
    """README's Quickstart has exactly two fenced commands: make demo and make test."""
    quickstart = (ROOT / "README.md").read_text().split("## Quickstart")[1].split("\n## ")[0]

    assert ["make demo", "make test"] == re.findall(r"```\n(.*?)\n```", quickstart, re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "JOBS.md"])
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link of a page names a file that exists."""
    targets = re.findall(r"\]\((?!http|#)([^)#]+)", (ROOT / page).read_text())

    assert [] == [target for target in targets if not (ROOT / target).exists()]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_named_files_exist(page: str) -> None:
    """Every path in back-quotes that names a Python file of the source exists."""
    named = re.findall(r"`((?:kfetch|jobs|tests)/[\w/]+\.py)`", (ROOT / page).read_text())

    assert [] == [name for name in named if not (ROOT / name).exists()]
