"""kfetch reads any YAML file, or raises an error of one sentence. Aliases can't exhaust memory."""

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

# The attack "billion laughs".
LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
"""Half a kilobyte of YAML whose aliases stand for a million million values."""
USES_OF_A = "".join(f"b{n}: *a\n" for n in range(1000))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a file that the test writes."""
    return tmp_path / "a.yml"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LAUGHS, "{}:5: a4: with its aliases written out, the file has more than 20,000 values: "),
        ("b: &b {x: 1}\n? *b\n: c", "{}:1: a key must be text"),
        (LAUGHS.replace("[", "{k: [").replace("]", "]}"), "{}:5: a4: with "),
        ("? [a, b]\n: c", "{}:1: a key must be text, and this is a list or has keys of its own"),
        ("a: &a ['${file:big}']\n" + USES_OF_A, "{}:65: b63: with its aliases "),
        ("a: b # " + "x" * (256 << 10), "{}:1: the file is longer than 256 KiB: "),
        (f"a: [{'a,' * (1 << 18)}]", "{}:1: the file is longer than 256 KiB: "),
    ],
)  # fmt: skip
def test_a_file_that_would_become_too_large(file: Path, text: str, sentence: str) -> None:
    """The error is one sentence with the line. kfetch raises it before it uses much memory."""
    file.with_name("big").write_text("x" * (64 << 10))
    file.write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="^" + re.escape(sentence.format(file))):
            yamlfile.read(file, {}, {})
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_an_alias_may_be_used_often(file: Path) -> None:
    """A small mapping with a thousand aliases is read."""
    file.write_text("a: &a {x: 1, y: [2]}\n" + USES_OF_A)

    assert {"x": "1", "y": ["2"]} == yamlfile.read(file, {}, {}).value["b999"]


BAD_YAML = [
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


@pytest.mark.parametrize(("text", "sentence"), BAD_YAML)
def test_bad_yaml_is_an_error_of_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """The error is one line of text. It starts with the file, and the line if it is known."""
    path = tmp_path / "kfetch.yml"
    path.write_text(text)

    with pytest.raises(ConfigError) as error:
        yamlfile.read(path, {}, {})
    assert str(error.value).startswith(f"{path}{sentence}")
    assert "\n" not in str(error.value)


_WORDS = (
    "a ? : - , [ ] { } & * &x *x ! !!int !!map !!null !!bool | > ' \" # \\ 0x_ << ~ 1 ${file:a}"
)


@examples(90)
@given(st.lists(st.sampled_from([*_WORDS.split(), " ", "\n", "\n  ", "a: "]), max_size=20))
def test_random_yaml_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """kfetch reads a random file, or raises ConfigError."""
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_text("".join(words))
    with suppress(ConfigError):
        yamlfile.read(path, {}, {})
