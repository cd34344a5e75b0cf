"""The tokens of a JSON document, as Spark's parser (Jackson 2.21) reads them, errors included.

Spark goes on after some errors, from the place and the state in which the parser stopped. So a
damaged document means what this state machine says, and the states here are Jackson's.
It is slow: only documents that the compiled loops refuse come here.

Text is decoded first, with U+FFFD for bytes that are not UTF-8, as Java's reader does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kfetch.formats.columns.node_table import NAME_LENGTH_MAX
from kfetch.formats.json.characters import BadDocument, Characters, starts_identifier
from kfetch.formats.json.loop_tables import STRING_LENGTH_MAX

DEPTH_MAX = 1000
"""Spark's default of maxNestingDepth."""
_READ_LENGTH_MAX = 306 << 16
"""Jackson reads so many UTF-16 units, in buffers of 64 Ki, before it looks at the length."""


class Token(Enum):
    """The tokens that the parser returns."""

    START_OBJECT = auto()
    END_OBJECT = auto()
    START_ARRAY = auto()
    END_ARRAY = auto()
    NAME = auto()
    STRING = auto()
    INTEGER = auto()
    FLOAT = auto()
    TRUE = auto()
    FALSE = auto()
    NULL = auto()


_STARTS = (Token.START_OBJECT, Token.START_ARRAY)
_ENDS = (Token.END_OBJECT, Token.END_ARRAY)
_WORDS = {"t": ("true", Token.TRUE), "f": ("false", Token.FALSE), "n": ("null", Token.NULL)}


@dataclass(slots=True)
class _OpenContainer:
    """An open object or array, or the document itself."""

    kind: str
    """"{", "[", or "" for the document."""
    entries: int = -1
    """Number of the entry that is being read."""
    name: str | None = None
    """Name of the field that is being read."""


class Tokens(Characters):
    """Reads one document. ``next`` moves on; the other methods look at the token read last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._scopes = [_OpenContainer("")]
        self._value_token: Token | None = None  # the value behind a name, which is read with it
        self._unread = False  # whether the string at the position is not read yet
        self._content = ""
        self._too_long: BadDocument | None = None  # behind it, Jackson may find no comma
        self.token: Token | None = None
        """The current token; None before the first one, and behind the last."""

    @property
    def name(self) -> str | None:
        """The name of the field to which the token belongs."""
        if self.token in _STARTS and len(self._scopes) > 1:
            return self._scopes[-2].name
        return self._scopes[-1].name

    def text(self) -> str:
        """Returns the text of a string or a number. Raises BadDocument for a broken string."""
        if self._unread:
            self._unread = False
            self._content = self._string('"')
        if _is_longer(self._content, STRING_LENGTH_MAX):
            raise self._longer_than(STRING_LENGTH_MAX, "string")
        return self._content

    def _string(self, quote: str) -> str:
        """Reads a string. Jackson stops inside of one that is much too long: no comma follows."""
        content = self.string(quote)
        if _is_longer(content, _READ_LENGTH_MAX):
            self._at -= 1
            raise self._longer_than(STRING_LENGTH_MAX, "string")
        return content

    def _longer_than(self, limit: int, what: str) -> BadDocument:
        self._too_long = self.bad(f"a {what} has more than {limit} characters")
        return self._too_long

    def binary(self) -> bytes:
        """Returns the bytes of a string in base64. Raises BadDocument."""
        if self._unread:
            content = self.base64()
            self._unread = False
            return content
        return self._binary_of_content()

    def _binary_of_content(self) -> bytes:
        """Returns the bytes of a string that is read already: one in single quotes."""
        if '"' in self._content or "\\" in self._content:
            raise self.bad("a character is not of base64")
        try:
            return Characters(f'{self._content}"').base64()
        except BadDocument as error:
            raise self.bad(error.what) from None

    def next(self) -> Token | None:
        """Reads the next token; None behind the last. Raises BadDocument."""
        if self.token is Token.NAME:
            return self._after_name()
        if self._unread:
            self._unread = False
            self.string('"')
        char = self.skip_space()
        if not char:
            self._check_end()
            self.token = None
        elif char in "}]":
            self._close(char)
        else:
            self._entry(char)
        return self.token

    def skip_children(self) -> None:
        """Moves to the end of the object or array that starts here, if one does."""
        depth = 1 if self.token in _STARTS else 0
        while depth:
            token = self.next()
            if token in _STARTS:
                depth += 1
            elif token in _ENDS:
                depth -= 1
            elif token is None:
                self._check_end()
                return

    def _check_end(self) -> None:
        if len(self._scopes) > 1:
            kind = "an array" if self._scopes[-1].kind == "[" else "an object"
            raise self.bad(f"the document ends inside {kind}", len(self._text))

    def _after_name(self) -> Token | None:
        token, self._value_token = self._value_token, None
        self._open(token)
        self.token = token
        return token

    def _open(self, token: Token | None) -> None:
        if token not in _STARTS:
            return
        self._scopes.append(_OpenContainer("{" if token is Token.START_OBJECT else "["))
        if len(self._scopes) - 1 > DEPTH_MAX:
            # Jackson changes the token behind this check. So it keeps the old one.
            raise self.bad(f"more than {DEPTH_MAX} levels lie inside each other")

    def _close(self, char: str) -> None:
        if self._scopes[-1].kind != {"}": "{", "]": "["}[char]:
            raise self.bad(f"{char} closes nothing")
        self._scopes.pop()
        self.token = Token.END_OBJECT if char == "}" else Token.END_ARRAY

    def _entry(self, char: str) -> None:
        """Reads a name with the token of its value, or a value."""
        scope = self._scopes[-1]
        scope.entries += 1
        if scope.kind and scope.entries > 0:
            char = self._after_comma(char)
        if scope.kind != "{":
            token = self._value(char)
            self._open(token)
            self.token = token
            return
        scope.name = self._name(char)
        # An error in the value leaves this token, and no token behind it.
        self.token, self._value_token = Token.NAME, None
        self._value_token = self._value(self._after_colon())

    def _after_comma(self, char: str) -> str:
        if char != ",":
            raise self._too_long or self.bad("a comma is missing")
        char = self.skip_space()
        if not char:
            raise self.bad("the document ends behind a comma", len(self._text))
        return char

    def _after_colon(self) -> str:
        char = self.skip_space()
        if char and char != ":":
            raise self.bad("a colon is missing behind a name")
        char = char and self.skip_space()
        if not char:
            raise self.bad("the document ends behind a name", len(self._text))
        return char

    def _name(self, char: str) -> str:
        if char not in ('"', "'"):
            raise self.bad("a name must start with a quotation mark")
        name = self.string(char)
        if _is_longer(name, NAME_LENGTH_MAX):
            raise self._longer_than(NAME_LENGTH_MAX, "name")
        return name

    def _value(self, char: str) -> Token:
        """Reads a scalar, or the first character of another value. Returns its token."""
        match char:
            case '"':
                self._unread = True
                return Token.STRING
            case "[":
                return Token.START_ARRAY
            case "{":
                return Token.START_OBJECT
            case "t" | "f" | "n":
                self._content, token = _WORDS[char]
                self.match(self._content, 1)
                return token
            case "-":
                return self._negative()
        return self._number(self._at - 1) if "0" <= char <= "9" else self._odd_value(char)

    def _number(self, start: int) -> Token:
        self._content, integer = self.number(start)
        return Token.INTEGER if integer else Token.FLOAT

    def _negative(self) -> Token:
        if "0" <= self.peek() <= "9":
            return self._number(self._at - 1)
        return self._signed_word(self.char("a number"), "-")

    def _odd_value(self, char: str) -> Token:
        """Reads a value that is not in the standard. Most of them are errors."""
        if char == "'":
            self._content = self._string(char)
            return Token.STRING
        if char == "N":
            return self._non_number("NaN", 1)
        if char == "I":
            return self._non_number("Infinity", 1)
        if char == "+":
            return self._signed_word(self.char("a number"), "+")
        if starts_identifier(char):
            raise self.unknown_word(char)
        raise self.bad(f"{char!r} is no value")

    def _signed_word(self, char: str, sign: str) -> Token:
        """Reads Infinity behind a sign. Everything else is an error."""
        if char == "I":
            char = self.char("a number")
            if char in "Nn":
                return self._non_number(sign + ("INF" if char == "N" else "Infinity"), 3)
        raise self.bad("a digit is missing behind a sign")

    def _non_number(self, word: str, matched: int) -> Token:
        self.match(word, matched)
        self._content = word
        return Token.FLOAT


def _is_longer(text: str, limit: int) -> bool:
    """Returns whether a text has more UTF-16 units than ``limit``."""
    return len(text) > limit // 2 and len(text.encode("utf-16-le", "surrogatepass")) > 2 * limit
