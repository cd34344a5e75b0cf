"""One name, one meaning: no class and no alias of a type has the name of another one."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_CAMEL_CASE = re.compile(r"_*[A-Z]\w*[a-z]\w*")
"""Classes and aliases are written like this. Type variables have one letter."""
_PERHAPS_DEFINED = re.compile(rf"^ *(?:class |(?={_CAMEL_CASE.pattern} =))(\w+)", re.MULTILINE)
"""A line that may define one, or a line of a text."""


def _defined(path: Path) -> Iterator[str]:
    """Yields the classes of a file and the aliases of types, which stand at its top."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        for statement in [node, *getattr(node, "body", ())] if isinstance(node, ast.If) else [node]:
            if isinstance(statement, ast.Assign):
                names = [ast.unparse(target) for target in statement.targets]
                yield from filter(_CAMEL_CASE.fullmatch, names)


@pytest.mark.parametrize("package", ["spark_source/kfetch", "jobs/kfetch_jobs"])
def test_each_class_has_a_name_of_its_own(package: str) -> None:
    """Who searches for a name finds one definition in a distribution."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = {path: _PERHAPS_DEFINED.findall(path.read_text()) for path in paths}
    counts = Counter(name for found in names.values() for name in found)
    files = defaultdict[str, list[str]](list)
    for path in paths:
        if any(counts[name] > 1 for name in names[path]):  # parsing all files takes a second
            for name in _defined(path):
                files[name].append(str(path.relative_to(ROOT)))
    assert len(counts) > 100
    assert {} == {name: found for name, found in files.items() if len(found) > 1}
