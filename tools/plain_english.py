"""Checks that documents are plain English: ``python -m tools.plain_english [FILE…]``.

The rules are in tools/plain_english.toml: how long sentences may be, and which words have a simpler
one. It reads prose only: no code, tables, headings or pictures. No linter on PyPI limits the length
of sentences.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RULES", "Rules", "Sentence", "problems", "sentences"]

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a document, with code as one word."""

    line: int
    """The line where its paragraph starts, from 1."""
    text: str

    @property
    def words(self) -> int:
        """The number of words."""
        return len(self.text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of plain_english.toml."""

    words_max: int
    words_long: int
    long_share_max: float
    """In %."""
    sentences_min: int
    words_average_max: float
    words: dict[str, str]
    """Advice by regular expression."""
    files: Sequence[str] = ()
    """Patterns of the files to check."""
    excluded: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path) -> Rules:
        """Returns the rules of a file."""
        fields = tomllib.loads(path.read_text())
        return cls(excluded=fields.pop("except"), **fields)

    def documents(self) -> list[Path]:
        """Returns the files to check."""
        excluded = {path for pattern in self.excluded for path in ROOT.glob(pattern)}
        found = {path for pattern in self.files for path in ROOT.glob(pattern)}
        return sorted(found - excluded)


RULES = Rules.read(Path(__file__).with_suffix(".toml"))

_NO_PROSE = ("|", "#", "!", "<", "[!", ">>>")
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z`*(\"'“]|kfetch\b|$)")


def sentences(markdown: str) -> Iterator[Sentence]:
    """Yield the sentences of a document's paragraphs and lists."""
    for line, paragraph in _paragraphs(markdown):
        text = re.sub(r"`[^`]*`", "code", paragraph)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        for sentence in _END.split(" ".join(text.split())):
            if sentence:
                yield Sentence(line=line, text=sentence)


def _paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph and each item of a list, with the number of its first line."""
    fence, first, lines = "", 0, list[str]()
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        prose = not (fence or mark or line.startswith("    ") or _is_no_prose(line))
        if lines and (not prose or _ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if prose:
            first = first if lines else number
            lines.append(_ITEM.sub("", line))
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]


def _is_no_prose(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(_NO_PROSE)


def problems(markdown: str, rules: Rules = RULES) -> Iterator[str]:
    """Yield what is wrong with a document, with the line if one sentence is wrong."""
    found = [*sentences(markdown)]
    for sentence in found:
        if sentence.words > rules.words_max:
            length = f"{sentence.words} words, at most {rules.words_max}"
            yield f"{sentence.line}: {length}: {sentence.text}"
        for pattern, advice in rules.words.items():
            if word := re.search(rf"(?i)\b(?:{pattern})(?!\w)", sentence.text):
                yield f"{sentence.line}: {word[0].strip()!r}: {advice}"
    yield from _shares(found, rules)


def _shares(found: Sequence[Sentence], rules: Rules) -> Iterator[str]:
    if len(found) < rules.sentences_min:
        return
    long = [sentence for sentence in found if sentence.words > rules.words_long]
    share = 100 * len(long) / len(found)
    average = sum(sentence.words for sentence in found) / len(found)
    if share > rules.long_share_max:
        lines = ", ".join(str(sentence.line) for sentence in long)
        yield (
            f"{share:.0f} % of the sentences have over {rules.words_long} words, at most "
            f"{rules.long_share_max} %: lines {lines}"
        )
    if average > rules.words_average_max:
        yield f"{average:.1f} words a sentence on average, at most {rules.words_average_max}"


def main(names: Sequence[str]) -> int:
    """Print the problems of the named files, or of all documents. Returns the exit code."""
    paths = [Path(name).resolve() for name in names] or RULES.documents()
    count = 0
    for path in paths:
        for problem in problems(path.read_text()):
            count += 1
            print(f"{path.relative_to(ROOT)}:{problem}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
