"""YAML files for people: every value knows its line, and ``${env:NAME}`` is filled in.

    document = read(Path("kfetch.yml"), os.environ, {})
    document.value                        plain dicts, lists and scalars
    document.file_line(("clusters", "local")) "kfetch.yml:14"

What ``${…}`` may hold: ``env:NAME``, ``env:NAME:-default``, ``file:PATH`` (from the file's
directory; its text without the last line's end) and the names that the caller gives.
What came from elsewhere may be a secret: sentences show the text as it was written.
A key that stands twice is an error, as is a file that is no mapping. What the keys mean is not
known here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from kfetch_jobs.errors import ConfigError

__all__ = ["Document", "Location", "display", "read", "suggestion", "with_placeholders"]

Location = tuple[str | int, ...]

_TELLING = 3
"""Shorter texts are hidden only where they are quoted: they are parts of any sentence."""
_TELLING_LINE = 8
_SECRET = re.compile(r"(?i)secret|passw|token|credential|jaas|private|\bkey\b")
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_FILE = re.compile(r"file:(?P<path>.+)")
_FILE_BYTES_MAX = 64 << 10
"""A secret is short; whoever names a log or a device by mistake is told."""
_YAML_BYTES_MAX = 256 << 10
"""PyYAML needs seconds of CPU for this much of the worst, and looks at nothing before its end."""
_VALUES_MAX = 20_000
"""Aliases are written out here: ten lines of them can stand for more than any memory holds."""
_TEXT_MAX = 4 << 20
"""Characters, for the same reason: what ``${file:…}`` brings can be repeated, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's content, and where in the file each part of it stands."""

    path: Path
    value: dict[str, Any] = field(repr=False)
    lines: dict[Location, int] = field(default_factory=dict)
    raw_texts: dict[Location, str] = field(default_factory=dict)
    """The text before ``${…}`` was filled in: what may be shown, where a value may be secret."""
    placeholders: dict[str, str] = field(default_factory=dict, repr=False)
    """What ``${…}`` brought, and how it was written."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Of these, what came from a file, or stands under a key that sounds like a secret; and each
    line of what has several, since a log may be read from the middle of it."""

    def with_placeholders(self, sentence: str) -> str:
        """A sentence about this file, with what ``${…}`` brought as it was written."""
        return with_placeholders(sentence, self.placeholders)

    def line(self, location: Location) -> int:
        """The line of a part, or of the nearest part around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def file_line(self, location: Location) -> str:
        """``file:line`` of a part."""
        return f"{display(self.path)}:{self.line(location)}"


def with_placeholders(sentence: str, written: Mapping[str, str]) -> str:
    """A sentence in which texts stand as they were written.

    What stands for a text, as ``${env:NAME:-text}`` does, may hold it, and is not looked into.
    """
    known = {one: one for one in written.values()} | dict(written)
    parts = [sentence]
    for text in sorted(known, key=len, reverse=True):
        parts = _apart(parts, repr(text), repr(known[text]))
        if len(text) >= _TELLING:
            parts = _apart(parts, text, known[text])
    return "".join(parts)


def _apart(parts: list[str], text: str, stands: str) -> list[str]:
    """Every second part is done; the others are cut where the text is, with what stands for it."""
    if not any(text in part for part in parts[::2]):
        return parts
    found: list[str] = []
    for part, done in zip_longest(parts[::2], parts[1::2]):
        first, *others = part.split(text)
        found.append(first)
        for other in others:
            found += (stands, other)
        found += () if done is None else (done,)
    return found


def _tells(line: str) -> bool:
    """Whether a line can be hidden by itself: a brace or a number is a part of any log."""
    return len(line) >= _TELLING_LINE


def display(path: Path) -> str:
    """The path as a person would type it here."""
    inside = path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd()) if inside else path)


def suggestion(word: str, known: Iterable[str]) -> str:
    """What was meant, if a known word is near; else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"known here: {', '.join(names)}" if names else "nothing is known here"


def read(path: Path, environ: Mapping[str, str], names: Mapping[str, str]) -> Document:
    """Parse a file; ``names`` are further references, as ``${storage}``. Raises ConfigError."""
    try:
        loader = yaml.SafeLoader(_text(path))
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(
                f"{display(path)}:1: expected keys with values, as in `storage: data`"
            )
        document = Document(path=path, value={})
        document.value.update(_Filler(document, loader, environ, names).value(root, ()))
    except OSError as cause:
        raise ConfigError(f"{display(path)} cannot be read: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise ConfigError(f"{display(path)} is not UTF-8 text: {cause.reason}") from cause
    except yaml.YAMLError as cause:
        raise ConfigError(_not_yaml(path, cause)) from cause
    except RecursionError:
        raise ConfigError(f"{display(path)} is nested too deeply: make it flatter") from None
    except (OverflowError, ValueError) as cause:  # PyYAML's, for numbers in escapes and directives
        raise ConfigError(f"{display(path)} is not YAML: {cause}: correct it") from cause
    return document


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_YAML_BYTES_MAX + 1)
    if len(content) > _YAML_BYTES_MAX:
        raise ConfigError(
            f"{display(path)}:1: the file is longer than {_YAML_BYTES_MAX >> 10} KiB: "
            "no file of a project is"
        )
    return content.decode()


def _not_yaml(path: Path, cause: yaml.YAMLError) -> str:
    mark = getattr(cause, "problem_mark", None)
    line = mark.line + 1 if mark else 1
    problem = getattr(cause, "problem", None) or str(cause).splitlines()[0]
    return f"{display(path)}:{line}: not YAML: {problem}"


class _Filler:
    """From YAML's nodes, which know their lines, to plain values."""

    def __init__(
        self, document: Document, loader: Any, environ: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        self._document = document
        self._loader = loader
        self._environ = environ
        self._names = names
        self._open: set[yaml.Node] = set()
        self._values = 0
        self._characters = 0

    def value(self, node: yaml.Node, at: Location) -> Any:
        """What a node holds. Raises ConfigError for what it can't hold."""
        self._values += 1
        self._check_size(self._values, _VALUES_MAX, "values", at)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        if node in self._open:
            raise ConfigError(
                f"{self._named(at)} is an alias of what it stands in: write out what is meant"
            )
        self._open.add(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, at)
            return [self._item(item, (*at, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(node)

    def _check_size(self, size: int, most: int, unit: str, at: Location) -> None:
        """Raise for a file that grows too large, at the outermost key: all within is another's."""
        if size > most:
            raise ConfigError(
                f"{self._named(at[:1])}: with its aliases written out, the file has more than "
                f"{most:,} {unit}: write fewer"
            )

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            here = (*at, key)
            self._document.lines.setdefault(here, key_node.start_mark.line + 1)
            if key in found:
                line = key_node.start_mark.line + 1
                raise ConfigError(
                    f"{display(self._document.path)}:{line}: {key} stands here a second time"
                )
            found[key] = self.value(value_node, here)
        return found

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(
                f"{display(self._document.path)}:{node.start_mark.line + 1}: a key must be text, "
                "and this is a list or has keys of its own: correct it"
            )
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, at: Location) -> Any:
        if node.tag == f"{_TAG}str":
            return self._filled(node.value, at)
        if node.tag not in self._loader.yaml_constructors:
            raise ConfigError(
                f"{self._named(at)} has the tag {node.tag}, which is not known: leave it out"
            )
        try:
            return self._loader.construct_object(node)
        except Exception as cause:  # whatever Python says of such a text: PyYAML doesn't translate
            raise ConfigError(
                f"{self._named(at)} is no {node.tag.removeprefix(_TAG)}: correct it, or put it in "
                "quotes if it is text"
            ) from cause

    def _named(self, at: Location) -> str:
        return f"{self._document.file_line(at)}: {'.'.join(map(str, at))}"

    def _item(self, node: yaml.Node, at: Location) -> Any:
        self._document.lines[at] = node.start_mark.line + 1
        return self.value(node, at)

    def _filled(self, text: str, at: Location) -> str:
        filled = _REFERENCE.sub(lambda match: self._lookup(match[1], at), text)
        self._characters += len(filled)
        self._check_size(self._characters, _TEXT_MAX, "characters", at)
        if filled != text:
            self._document.raw_texts[at] = text
        return filled

    def _lookup(self, reference: str, at: Location) -> str:
        if reference in self._names:
            return self._names[reference]
        if variable := _VARIABLE.fullmatch(reference):
            found = self._variable(reference, variable, at)
        elif file := _FILE.fullmatch(reference):
            found = self._content(file["path"], at)
        else:
            name = reference.rpartition(":")[2] or "NAME"
            hint = suggestion(reference, [f"env:{name}", f"file:{name}", *self._names])
            raise ConfigError(
                f"{self._document.file_line(at)}: ${{{reference}}} is unknown: {hint}"
            )
        if found:
            self._document.placeholders[found] = f"${{{reference}}}"
            if reference.startswith("file:") or any(_SECRET.search(str(key)) for key in at):
                for text in (found, *filter(_tells, map(str.strip, found.splitlines()))):
                    self._document.secrets[text] = f"${{{reference}}}"
        return found

    def _variable(self, reference: str, variable: re.Match[str], at: Location) -> str:
        found: str | None = self._environ.get(variable["name"], variable["default"])
        if found is None:
            raise ConfigError(
                f"{self._document.file_line(at)}: the environment variable {variable['name']} is not "
                f"set: export it, or write ${{{reference}:-value}}"
            )
        return found

    def _content(self, name: str, at: Location) -> str:
        path = self._document.path.parent / name
        place = self._document.file_line(at)
        try:
            with path.open("rb") as file:
                content = file.read(_FILE_BYTES_MAX + 1)
            text = content.decode()
        except OSError as cause:
            raise ConfigError(f"{place}: {path} cannot be read: {cause.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{place}: {path} is not UTF-8 text") from None
        except ValueError:
            raise ConfigError(f"{place}: {name!r} cannot name a file: correct it") from None
        if len(content) > _FILE_BYTES_MAX:
            raise ConfigError(f"{place}: {path} is longer than {_FILE_BYTES_MAX >> 10} KiB")
        return text.removesuffix("\n").removesuffix("\r")
