"""What calls itself pure: import-linter's contracts name it, and it asks its arguments alone."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {"kfetch": "spark_source", "kfetch_jobs": "jobs"}
PURE = re.compile(r"\bpure\b(?! Python)", re.IGNORECASE)
ASKS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "now", "utcnow", "today"}
"""No import shows these: they are builtins, or methods of classes that pure code may use."""


def of(name: str) -> list[str]:
    """The files of a module or a package."""
    path = ROOT.joinpath(SOURCES[name.partition(".")[0]], *name.split("."))
    files = path.glob("**/*.py") if path.is_dir() else [path.with_suffix(".py")]
    return [str(file.relative_to(ROOT)) for file in files]


def held() -> Iterator[str]:
    """Files of modules that a contract keeps from a clock."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in told["tool"]["importlinter"]["contracts"]:
        if "time" in contract.get("forbidden_modules", ()):
            for name in contract["source_modules"]:
                yield from of(name)


def says_so(path: Path) -> bool:
    return PURE.search(ast.get_docstring(ast.parse(path.read_text())) or "") is not None


def test_whoever_says_that_it_is_pure_is_held_to_it() -> None:
    """A module whose docstring says so is in a contract of import-linter."""
    files = [file for top in SOURCES for file in of(top)]
    pure = {file for file in files if not file.endswith("__init__.py") and says_so(ROOT / file)}

    assert len(pure) > 10
    assert set() == pure - set(held())


@pytest.mark.parametrize("file", sorted({*held()}))
def test_what_is_pure_asks_no_file_and_no_clock(file: str) -> None:
    """It neither opens a file nor asks what time it is."""
    calls = [
        each for each in ast.walk(ast.parse((ROOT / file).read_text())) if type(each) is ast.Call
    ]
    names = {ast.unparse(call.func).rpartition(".")[2] for call in calls}

    assert set() == names & ASKS
