"""Reads Java's ``sasl.jaas.config``: one log-in module with its options.

The syntax is that of Kafka's JaasConfig: ``module.Class required key="value" key=value;``. Its
tokenizer is Java's StreamTokenizer: quotes of both kinds, C's escapes within them, and comments.
An option that comes twice has its last value, as in Java. The text holds secrets, and a forgotten
quotation mark makes any part of it a name. So an error shows the class name of a log-in module, and
counts the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kfetch.errors import OptionError
from kfetch.options.secret import Secret

JAAS_CONFIG = "kafka.sasl.jaas.config"

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>//[^\r\n]*|/\*.*?\*/)
    | (?P<quoted>"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*')
    | (?P<mark>[=;])
    | (?P<word>(?:(?!//|/\*)[^\s=;"'])+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
_NAME = re.compile(r"[A-Za-z_$][\w$.-]*")
_FORM = 'module.Class required name="value" … ;'


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """A log-in module of Java, and its options."""

    name: str
    """The class name without its package: ``PlainLoginModule``."""
    options: Mapping[str, Secret] = field(repr=False)
    """Values by name. Any of them may be a secret."""

    def text(self, name: str, default: str = "") -> str:
        """Returns the text of an option that is no secret."""
        return self.options[name].reveal() if name in self.options else default

    def flag(self, name: str) -> bool:
        """Returns whether an option is ``true``, in any case, as Java reads it."""
        return self.text(name).lower() == "true"


def parse_jaas(config: Secret) -> LoginModule:
    """Returns the log-in module of a text. Raises OptionError."""
    tokens = [*_tokens(config.reveal())]
    module = tokens[0].text.rpartition(".")[2] if tokens else ""
    if not module.endswith("LoginModule") or _CLASS.fullmatch(tokens[0].text) is None:
        raise _malformed("it must begin with the class name of a log-in module")
    if len(tokens) < 2 or tokens[1].mark or tokens[1].text.lower() not in _FLAGS:
        raise _malformed(f"behind {module}, it needs a control flag such as required")
    options, end = _options(tokens, 2, module)
    if end < len(tokens):
        raise _malformed(f"there is more text behind {module} and its semicolon")
    return LoginModule(name=module, options=options)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    mark: bool = False
    """Whether it is = or ; outside of quotes."""


_END = _Token(";", mark=True)
_EQUALS = _Token("=", mark=True)


def _options(tokens: list[_Token], at: int, module: str) -> tuple[dict[str, Secret], int]:
    """Returns the options from a position on, and the position behind their semicolon."""
    options: dict[str, Secret] = {}
    while at < len(tokens) and tokens[at] != _END:
        name, *rest = tokens[at : at + 3]
        nth = f"option {len(options) + 1} of {module}"
        if name.mark or _NAME.fullmatch(name.text) is None:
            raise _malformed(f"{nth} has no name, or text before it needs quotation marks")
        if len(rest) < 2 or rest[0] != _EQUALS or rest[1].mark:
            raise _malformed(f"{nth} has no = with a value behind it")
        options[name.text] = Secret(rest[1].text)
        at += 3
    if at == len(tokens):
        raise _malformed(f"there is no semicolon behind {module} and its options")
    return options, at + 1


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _malformed("a quotation mark is not closed")
        at = match.end()
        if match.lastgroup == "quoted":
            yield _Token(_ESCAPE.sub(_unescaped, match[0][1:-1]))
        elif match.lastgroup in ("mark", "word"):
            yield _Token(match[0], mark=match.lastgroup == "mark")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


def _malformed(problem: str) -> OptionError:
    return OptionError.about(
        JAAS_CONFIG, f"can't be read: {problem}", action=f"Its form is: {_FORM}"
    )
