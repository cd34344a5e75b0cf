"""The code in the documents is valid: Python, options, commands, JSON and YAML."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kfetch.admin import cli
from kfetch.errors import OptionError
from kfetch.options.catalogue import lookup
from kfetch.options.option import Treatment
from kfetch_jobs.jvm.spark import DELTA

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


VALUES = "integration/spark/test_documents.py"
WHEELS = "integration/wheels/test_wheels.py"
SECURITY = "tests/test_security_docs.py"
RUN_BY = {
    "README.md": VALUES,
    "docs/explanation/fetch-sessions.md": "tests/test_docs.py",
    "docs/how-to/avro.md": VALUES,
    "docs/how-to/batch-reads.md": VALUES,
    "docs/how-to/cluster.md": __name__,
    "docs/how-to/columns.md": VALUES,
    "docs/how-to/connect.md": __name__,
    "docs/how-to/data-source-not-found.md": __name__,
    "docs/how-to/dead-letters.md": VALUES,
    "docs/how-to/delta.md": "integration/delta/test_tables.py",
    "docs/how-to/json.md": VALUES,
    "docs/how-to/log-in-kerberos.md": SECURITY,
    "docs/how-to/log-in-msk.md": SECURITY,
    "docs/how-to/log-in-password.md": SECURITY,
    "docs/how-to/log-in-tokens.md": SECURITY,
    "docs/how-to/memory.md": VALUES,
    "docs/how-to/monitor.md": WHEELS,
    "docs/how-to/protobuf.md": VALUES,
    "docs/how-to/schema-registry.md": VALUES,
    "docs/how-to/tls.md": SECURITY,
    "docs/reference/errors.md": __name__,
    "docs/reference/python-api.md": __name__,
    "docs/start/first-stream.md": WHEELS,
}
"""The test that runs a page's blocks of Python."""

NOT_RUN = re.compile(r"(?ms)<!-- not run: [^\n]+ -->\n\n```python\n.*?^```$")


def test_each_block_of_python_runs() -> None:
    """A page with Python has a test that runs it. A block that can't run says why in a comment."""
    pages = set()
    for page in PAGES:
        text = NOT_RUN.sub("", (ROOT / page).read_text())
        generated = re.sub(r"(?s)<!-- (\w+) -->.*?<!-- /\1 -->", "", text)
        if "```python" in generated:
            pages.add(str(page))

    assert pages == RUN_BY.keys()
    for page, test in RUN_BY.items():
        if test != __name__:
            name = page.rpartition("/")[2].removesuffix(".md")
            assert name in (ROOT / test).read_text(), page


def run(page: str, number: int = 0) -> dict[str, Any]:
    """Runs a block of a page, and returns the names that it makes."""
    names: dict[str, Any] = {}
    exec(blocks(Path(page), "python")[number], names)
    return names


def test_the_pipeline_is_the_example() -> None:
    """The page has the code of examples/pipeline, which test_connect.py runs."""
    example = (ROOT / "examples/pipeline/transformations/clicks.py").read_text()
    *_, shown = blocks(Path("docs/how-to/connect.md"), "python")
    function = re.compile(r"(?s)(@dp\.table\ndef clicks.*?)\n    \"\"\".*?\"\"\"(\n.*?\n    \)\n)")

    assert function.findall(shown) == function.findall(example) != []


def test_the_page_about_a_missing_source_names_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark looks for data sources with the Python that runs the code."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    run("docs/how-to/data-source-not-found.md")

    assert sys.executable == os.environ["PYSPARK_PYTHON"]


def test_the_page_about_errors_finds_the_code() -> None:
    """``code_of`` finds the last code of kfetch in the text of Spark's exception."""
    code_of = run("docs/reference/errors.md")["code_of"]
    text = f"Traceback\nkfetch.errors.OptionError: {OptionError('no topic')}\nSQLSTATE: 38000"

    assert "OPTION_INVALID" == code_of(Exception(text))
    assert code_of(Exception("another error")) is None


def test_the_python_api_shows_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    """The example prints the partition and its offset."""
    run("docs/reference/python-api.md")

    assert "1200" in capsys.readouterr().out


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


def test_the_file_for_spark_submit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's file is the command line, and the page names kfetch's release of Delta."""
    monkeypatch.setattr(sys, "argv", ["run.py", "--version"])
    with contextlib.suppress(SystemExit):
        run("docs/how-to/cluster.md")

    assert "kfetch" in capsys.readouterr().out
    assert f"--packages {DELTA} " in (ROOT / "docs/how-to/cluster.md").read_text()
