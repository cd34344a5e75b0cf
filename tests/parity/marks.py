"""The marks ``connector_case`` of the tests, read from their files without importing them.

    @pytest.mark.connector_case("KafkaRelationSuiteBase", "explicit offsets")

names a suite and one or more of its cases. ``*`` stands for any text in a name.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Mark", "read_marks"]

ROOT = Path(__file__).parent.parent.parent
MARK = "connector_case"


@dataclass(frozen=True)
class Mark:
    """A mark at a test."""

    suite: str
    patterns: tuple[str, ...]
    """Names of cases, in which ``*`` stands for any text."""
    path: str
    """The file of the test, from the root on."""
    test: str
    says: str
    """The first paragraph of the test's docstring."""
    command: str
    """The command that runs the test."""


def read_marks() -> list[Mark]:
    """Returns the marks of all tests."""
    paths = [path for folder in ("tests", "integration") for path in (ROOT / folder).rglob("*.py")]
    return [mark for path in sorted(paths) for mark in _marks_of(path)]


def _marks_of(path: Path) -> Iterator[Mark]:
    text = path.read_text()
    if not path.name.startswith("test_") or f"mark.{MARK}(" not in text:
        return
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield from _marks_at(node, str(path.relative_to(ROOT)), _is_long(tree))


def _marks_at(node: ast.FunctionDef, path: str, module_is_long: bool) -> Iterator[Mark]:
    long = module_is_long or "pytest.mark.long" in map(ast.unparse, node.decorator_list)
    says = inspect.cleandoc(ast.get_docstring(node) or "").split("\n\n")[0]
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(MARK):
            suite, *patterns = map(ast.literal_eval, decorator.args)
            command = _command(path, long)
            yield Mark(suite, tuple(patterns), path, node.name, " ".join(says.split()), command)


def _command(path: str, long: bool) -> str:
    if path.startswith("tests/"):
        return "make test"
    return "make faults" if long else "make integration"


def _is_long(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Assign)
        and "pytestmark" in map(ast.unparse, node.targets)
        and "pytest.mark.long" in ast.unparse(node.value)
        for node in tree.body
    )
