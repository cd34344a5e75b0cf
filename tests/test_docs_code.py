"""The code in the documents is valid: Python, options, commands, JSON and YAML."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kfetch import cli
from kfetch.options.catalogue import Treatment, lookup

ROOT = Path(__file__).parent.parent
PAGES = [
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.parent.name != "decisions" and path.name != "commands.md"  # the commands' own text
]
BLOCK = re.compile(r"(?ms)^( *)```(\w+)\n(.*?)^ *```$")


def blocks(page: Path, *languages: str) -> list[str]:
    """The page's blocks of code in one of the languages, without their indentation."""
    return [
        re.sub(rf"(?m)^{indent}", "", code)
        for indent, language, code in BLOCK.findall((ROOT / page).read_text())
        if language in languages
    ]


def with_blocks(*languages: str) -> list[Any]:
    """A parameter for each page that has such blocks."""
    return [pytest.param(page, id=str(page)) for page in PAGES if blocks(page, *languages)]


def parsed(code: str) -> ast.Module:
    """The syntax tree. A chain of calls may stand without parentheses, or without its start."""
    for text in (code, f"(\n{code}\n)", f"(\nreader\n{code}\n)"):
        try:
            return ast.parse(text)
        except SyntaxError:
            continue
    return ast.parse(code)


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_is_valid_and_its_options_are_built(page: Path) -> None:
    """Each block of Python parses, and ``.option`` names options that work."""
    for code in blocks(page, "python"):
        if ">>>" in code:
            continue
        for node in ast.walk(parsed(code)):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="option"), args=[ast.Constant(value=str(name)), _]
                ) if name not in ("path", "checkpointLocation"):
                    option = lookup(name)
                    assert option is not None, name
                    assert Treatment.PLANNED is not option.treatment, name


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command ``kfetch`` in the page's blocks."""
    for code in blocks(page, "text", "bash", "shell", "dockerfile"):
        for line in code.splitlines():
            if command := re.match(r"\s*(?:\$ |RUN )?(?:\w+=\S+ )*(kfetch [a-z].*)", line):
                yield shlex.split(re.split(r" [|&]|\s#", command[1])[0])[1:]


def find(words: list[str]) -> tuple[Any, list[str]]:
    """The click command of the words, and the words behind its name."""
    found: Any = cli.command()
    while words and hasattr(found, "commands") and words[0] in found.commands:
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page)) for page in PAGES if [*commands(page)]]
)
def test_commands_exist_with_their_options(page: Path) -> None:
    """Each command ``kfetch`` exists, and has the options that the page gives it."""
    for words in commands(page):
        command, rest = find(words)
        known = {name for option in command.params for name in option.opts}

        assert not hasattr(command, "commands"), words
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= known, words


@pytest.mark.parametrize("page", with_blocks("json"))
def test_json_is_valid(page: Path) -> None:
    """Each block of JSON parses."""
    for code in blocks(page, "json"):
        json.loads(code)


@pytest.mark.parametrize("page", with_blocks("yaml"))
def test_yaml_is_valid(page: Path) -> None:
    """Each block of YAML parses to keys and values."""
    for code in blocks(page, "yaml"):
        assert isinstance(yaml.safe_load(code), dict)
