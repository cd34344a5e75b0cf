"""Any file of YAML is read, or is a mistake in one sentence, also if aliases would make it grow."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.config import yamlfile
from kfetch_jobs.errors import ConfigError
from tests.examples import examples

LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
"""A million million values in half a kilobyte."""
ALIASES = "".join(f"b{n}: *a\n" for n in range(1000))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file to be written."""
    return tmp_path / "a.yml"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LAUGHS, "{}:5: a4: with its aliases written out, the file has more than 20,000 values: "),
        ("b: &b {x: 1}\n? *b\n: c", "{}:1: a key must be text"),
        (LAUGHS.replace("[", "{k: [").replace("]", "]}"), "{}:5: a4: with "),
        ("? [a, b]\n: c", "{}:1: a key must be text, and this is a list or has keys of its own"),
        ("a: &a ['${file:big}']\n" + ALIASES, "{}:65: b63: with its aliases "),
        ("a: b # " + "x" * (256 << 10), "{}:1: the file is longer than 256 KiB: "),
        (f"a: [{'a,' * (1 << 18)}]", "{}:1: the file is longer than 256 KiB: "),
    ],
)  # fmt: skip
def test_what_would_grow(file: Path, text: str, sentence: str) -> None:
    """One sentence with the line, at once, and without the memory."""
    file.with_name("big").write_text("x" * (64 << 10))
    file.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="^" + re.escape(sentence.format(file))):
            yamlfile.read(file, {}, {})
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_aliases_have_their_use(file: Path) -> None:
    """A mapping that is written once and used often is what aliases are for."""
    file.write_text("a: &a {x: 1, y: [2]}\n" + ALIASES)

    assert {"x": "1", "y": ["2"]} == yamlfile.read(file, {}, {}).value["b999"]


IN_YAML = [
    ("a: 1\nb: &x {c: *x}", ":2: b.c is an alias of what it stands in: write out what is meant"),
    ("a: &x\n  - 1\n  - *x", ":1: a.1 is an alias of what it stands in"),
    ("&x\na: *x", ":2: a is an alias of what it stands in"),
    ("a: " + "[" * 500 + "]" * 500, " is nested too deeply: "),
    ("a: 1\nb: !!bool maybe", ":2: b is no bool: correct it, or put it in quotes"),
    ("a: !!int ''", ":1: a is no int: "),
    ("a: !!float x", ":1: a is no float: "),
    ("a: !!timestamp x", ":1: a is no timestamp: "),
    ("a:\n  b: !!timestamp 2024-13-45", ":2: a.b is no timestamp: correct it, or put it in q"),
    ("a: !!int 0b_", ":1: a is no int: "),
    ("a: !!binary \u00e9", ":1: a is no binary: "),
    ("a: !foo x", ":1: a has the tag !foo, which is not known: leave it out"),
    ('a: "\\UFFFFFFFF"', " is not YAML: "),
    ("%YAML 1." + "9" * 5000 + "\n---\na: 1", " is not YAML: "),
    ("a: \0", ":1: not YAML: unacceptable character #x0000"),
    ('a: "${file:b\\0c}"', ":1: 'b\\x00c' cannot name a file"),
]


@pytest.mark.parametrize(("text", "sentence"), IN_YAML)
def test_what_yaml_cannot_mean(tmp_path: Path, text: str, sentence: str) -> None:
    """Whatever a file holds, it is one sentence with its line, never a traceback."""
    path = tmp_path / "kfetch.yml"
    path.write_text(text)

    with pytest.raises(ConfigError) as told:
        yamlfile.read(path, {}, {})
    assert str(told.value).startswith(f"{path}{sentence}")
    assert "\n" not in str(told.value)


_WORDS = (
    "a ? : - , [ ] { } & * &x *x ! !!int !!map !!null !!bool | > ' \" # \\ 0x_ << ~ 1 ${file:a}"
)


@examples(90)
@given(st.lists(st.sampled_from([*_WORDS.split(), " ", "\n", "\n  ", "a: "]), max_size=20))
def test_yaml_of_any_kind(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    """It is read, or it is the user's mistake."""
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_text("".join(words))
    with suppress(ConfigError):
        yamlfile.read(path, {}, {})
