"""A file of YAML stays small: what aliases multiply costs a sentence, and no memory."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest

from kfetch_jobs.config import yamlfile
from kfetch_jobs.errors import ConfigError

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

    assert {"x": 1, "y": [2]} == yamlfile.read(file, {}, {}).value["b999"]
