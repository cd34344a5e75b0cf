"""Reads YAML files: values with their line numbers, and with ``${env:NAME}`` filled in.

    document = read(Path("kfetch.yml"), os.environ, {})
    document.value                        plain dicts, lists and texts
    document.file_line(("clusters", "local")) "kfetch.yml:14"

A placeholder ``${…}`` holds ``env:NAME``, ``env:NAME:-default``, ``file:PATH`` or a name that the
caller defines. A path starts at the file's directory; the file's text counts without its last
newline. A filled value may be a secret, so error messages show the placeholder, never its value.
A duplicate key is an error, and so is a file that is not a mapping. This module does not know the
meaning of the keys, so a plain scalar stays the text that stands in the file: ``0123``, ``yes`` and
``1.10`` too. Only ``null``, ``~`` and nothing are None.
"""

from __future__ import annotations

import difflib
import json
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from kfetch_jobs.errors import ConfigError

KeyPath = tuple[str | int, ...]

_SYNONYMS = {"topic": "subscribe", "topics": "subscribe"}
"""Words of other tools, with kfetch's word for the same thing. No spelling leads from one to it."""
_TEXT_MIN = 3
"""Shorter texts may be part of any word. Only their quoted form gets a placeholder."""
_SECRET_LINE_MIN = 8
_SCHEMA = re.compile(r"(?i)(key|value)(reader)?schema")
"""Keys whose files are no secrets."""
_SECRET = re.compile(r"(?i)secret|passw|token|credential|user\.info|jaas|private|\bkey\b")
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_FILE = re.compile(r"file:(?P<path>.+)")
_FILE_BYTES_MAX = 64 << 10
"""A secret is short. A longer file is a log or a device that somebody named by mistake."""
_SCHEMA_BYTES_MAX = 1 << 20
_YAML_BYTES_MAX = 256 << 10
"""PyYAML needs seconds of CPU for a malicious file of this size, and cannot be interrupted."""
_VALUES_MAX = 20_000
"""Aliases expand here. Ten lines of them can expand to more than any memory holds."""
_TEXT_MAX = 4 << 20
"""Limit of characters, for the same reason: ``${file:…}`` can be repeated too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's content, and the line of each part."""

    path: Path
    value: dict[str, Any] = field(repr=False)
    text: str = field(default="", repr=False)
    """The whole text, with its placeholders."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    raw_texts: dict[KeyPath, str] = field(default_factory=dict)
    """The text with its placeholders, by location: safe to show where the value may be secret."""
    placeholders: dict[str, str] = field(default_factory=dict, repr=False)
    """Filled values, with their placeholders."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """Secret values, with their placeholders: from files, and under keys such as ``password``.

    It has each line of a longer secret too, because a log may be read from its middle.
    """
    warnings: list[str] = field(default_factory=list)
    """A sentence for each file of ``${file:…}`` that other users of the machine can read."""

    def with_placeholders(self, sentence: str) -> str:
        """Returns a sentence about this file with ``${…}`` in place of every filled value."""
        return with_placeholders(sentence, self.placeholders)

    def line(self, location: KeyPath) -> int:
        """Returns the line of a part, or of the nearest part around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def file_line(self, location: KeyPath) -> str:
        """Returns ``file:line`` of a part."""
        return f"{display(self.path)}:{self.line(location)}"


def with_placeholders(sentence: str, placeholders: Mapping[str, str]) -> str:
    """Returns a sentence with each text replaced by its placeholder, also where it stands in JSON.

    A placeholder such as ``${env:NAME:-text}`` may contain the text. It stays as it is.
    """
    known = {one: one for one in placeholders.values()} | dict(placeholders)
    parts = [sentence]
    for text in sorted(known, key=len, reverse=True):
        parts = _replace(parts, repr(text), repr(known[text]))
        for form in dict.fromkeys((*_in_json(text), text)) if len(text) >= _TEXT_MIN else ():
            parts = _replace(parts, form, known[text])
    return "".join(parts)


def _in_json(text: str) -> list[str]:
    """Returns what stands between the quotes: with all letters as they are, or in ASCII."""
    return [json.dumps(text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)]


def _replace(parts: list[str], text: str, placeholder: str) -> list[str]:
    """Split the parts at the text, and put its placeholder between.

    Every second part is a placeholder already, and stays.
    """
    if not any(text in part for part in parts[::2]):
        return parts
    result: list[str] = []
    for part, done in zip_longest(parts[::2], parts[1::2]):
        first, *others = part.split(text)
        result.append(first)
        for other in others:
            result += (placeholder, other)
        result += () if done is None else (done,)
    return result


def _is_distinctive(line: str) -> bool:
    """Whether a line of a secret can be replaced by itself: a brace or a number is in any log."""
    return len(line) >= _SECRET_LINE_MIN


def _is_schema(at: KeyPath) -> bool:
    """Whether the last key names a schema."""
    return bool(at) and _SCHEMA.fullmatch(str(at[-1])) is not None


def display(path: Path) -> str:
    """Returns the path relative to the working directory, if it lies below it.

    All lie below ``/``, so it counts as none.
    """
    here = Path.cwd()
    inside = here != here.parent and path.is_relative_to(here)
    return str(path.relative_to(here) if inside else path)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns a hint with the nearest known word; else with all known words."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if (synonym := _SYNONYMS.get(word.lower())) in names:
        near = [synonym]
    if near:
        return f"did you mean {near[0]}?"
    return f"known here: {', '.join(names)}" if names else "nothing is known here"


def read(
    path: Path,
    environ: Mapping[str, str],
    names: Mapping[str, str],
    texts: Mapping[Path, str] = MappingProxyType({}),
) -> Document:
    """Parse a file. ``names`` are further placeholders, as ``${storage}``. Raises ConfigError.

    ``texts`` has texts that count in place of their files.
    """
    try:
        text = _text(path) if path not in texts else texts[path]
        loader = _Loader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(
                f"{display(path)}:1: expected keys with values, as in `storage: data`"
            )
        document = Document(path=path, value={}, text=text)
        filler = _Filler(document, loader, environ, names)
        document.value.update(filler.value(root, ()))
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
    if filler.mistakes:
        raise ConfigError(*filler.mistakes)
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


class _Loader(yaml.SafeLoader):
    """Takes no plain scalar for a number, a date or a truth value: the models know the types."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"(~|null|Null|NULL)?$"), ["~", *"nN", ""])


class _Filler:
    """From YAML's nodes, which have line numbers, to plain values."""

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
        self.mistakes: list[str] = []
        """Mistakes beside which the rest of the file can be read."""

    def value(self, node: yaml.Node, at: KeyPath) -> Any:
        """Returns the value of a node. Raises ConfigError for an unusable one."""
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

    def _check_size(self, size: int, most: int, unit: str, at: KeyPath) -> None:
        """Raises ConfigError for a file that expands too far, with the outermost key's line."""
        if size > most:
            raise ConfigError(
                f"{self._named(at[:1])}: with its aliases written out, the file has more than "
                f"{most:,} {unit}: write fewer"
            )

    def _mapping(self, node: yaml.MappingNode, at: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            here = (*at, key)
            self._document.lines.setdefault(here, key_node.start_mark.line + 1)
            if key in mapping:
                line = key_node.start_mark.line + 1
                self.mistakes.append(
                    f"{display(self._document.path)}:{line}: {key} stands here a second time"
                )
            mapping[key] = self.value(value_node, here)
        return mapping

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(
                f"{display(self._document.path)}:{node.start_mark.line + 1}: a key must be text, "
                "and this is a list or has keys of its own: correct it"
            )
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, at: KeyPath) -> Any:
        if node.tag == f"{_TAG}str":
            return self._filled(node.value, at)
        if node.tag not in self._loader.yaml_constructors:
            raise ConfigError(
                f"{self._named(at)} has the tag {node.tag}, which is not known: leave it out"
            )
        try:
            return self._loader.construct_object(node)
        except Exception as cause:  # PyYAML lets Python's own errors through
            raise ConfigError(
                f"{self._named(at)} is no {node.tag.removeprefix(_TAG)}: correct it, or put it in "
                "quotes if it is text"
            ) from cause

    def _named(self, at: KeyPath) -> str:
        return f"{self._document.file_line(at)}: {'.'.join(map(str, at))}"

    def _item(self, node: yaml.Node, at: KeyPath) -> Any:
        self._document.lines[at] = node.start_mark.line + 1
        return self.value(node, at)

    def _filled(self, text: str, at: KeyPath) -> str:
        filled = _REFERENCE.sub(lambda match: self._lookup_or_mistake(match[1], at), text)
        self._characters += len(filled)
        self._check_size(self._characters, _TEXT_MAX, "characters", at)
        if filled != text:
            self._document.raw_texts[at] = text
        return filled

    def _lookup_or_mistake(self, reference: str, at: KeyPath) -> str:
        try:
            return self._lookup(reference, at)
        except ConfigError as error:
            self.mistakes += error.mistakes
            return ""

    def _lookup(self, reference: str, at: KeyPath) -> str:
        if reference in self._names:
            return self._names[reference]
        if variable := _VARIABLE.fullmatch(reference):
            value = self._variable(reference, variable, at)
        elif file := _FILE.fullmatch(reference):
            value = self._content(file["path"], at)
        else:
            name = reference.rpartition(":")[2] or "NAME"
            hint = suggestion(reference, [f"env:{name}", f"file:{name}", *self._names])
            raise ConfigError(
                f"{self._document.file_line(at)}: ${{{reference}}} is unknown: {hint}"
            )
        if value:
            self._document.placeholders[value] = f"${{{reference}}}"
            is_file = reference.startswith("file:") and not _is_schema(at)
            if is_file or any(_SECRET.search(str(key)) for key in at if not _is_schema((key,))):
                for text in (value, *filter(_is_distinctive, map(str.strip, value.splitlines()))):
                    self._document.secrets[text] = f"${{{reference}}}"
        return value

    def _variable(self, reference: str, variable: re.Match[str], at: KeyPath) -> str:
        value: str | None = self._environ.get(variable["name"], variable["default"])
        if value is None:
            raise ConfigError(
                f"{self._document.file_line(at)}: the environment variable {variable['name']} "
                f"is not set: export it, or write ${{{reference}:-value}}"
            )
        return value

    def _content(self, name: str, at: KeyPath) -> str:
        path = self._document.path.parent / name
        line = self._document.file_line(at)
        limit = _SCHEMA_BYTES_MAX if _is_schema(at) else _FILE_BYTES_MAX
        try:
            with path.open("rb") as file:
                content = file.read(limit + 1)
            shared = path.stat().st_mode & stat.S_IROTH
            text = content.decode("utf-8-sig")
        except OSError as cause:
            base = "" if Path(name).is_absolute() else ": the path starts at this file's directory"
            raise ConfigError(f"{line}: {path} cannot be read: {cause.strerror}{base}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{line}: {path} is not UTF-8 text") from None
        except ValueError:
            raise ConfigError(f"{line}: {name!r} cannot name a file: correct it") from None
        if len(content) > limit:
            raise ConfigError(f"{line}: {path} is longer than {limit >> 10} KiB")
        if shared and not _is_schema(at):
            self._document.warnings.append(
                f"{line}: other users of this machine can read {path}: chmod 600 {path}"
            )
        return text.removesuffix("\n").removesuffix("\r")
