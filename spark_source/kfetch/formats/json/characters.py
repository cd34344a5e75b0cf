"""Characters of a JSON document: spaces, strings, escapes, words, numbers, base64.

Each method reads from the position and leaves it where Jackson 2.21 does, also after an error:
Spark may go on from there. ``tokens`` has the state machine above it.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode

NUMBER_LENGTH_MAX = 1000
"""Spark's default of maxNumLen."""
_ODD_TOKEN_MAX = 256  # Jackson skips so many characters of a word that it does not know

_BASE64 = {c: i for i, c in enumerate(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
)}  # fmt: skip
_PLAIN_BASE64 = re.compile(r'((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"')
_PADDING = -2
_ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "f": "\f",
    "r": "\r",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "'": "'",
}


_STOPS = {quote: re.compile(f"[{quote}\\\\\\x00-\\x1f]") for quote in "\"'"}
"""What ends plain text in a string with these quotation marks."""
_NUMBER = re.compile(r"-?(\d+)(\.\d*)?([eE][+-]?\d*)?", re.ASCII)


class BadDocument(Exception):
    """A document, or a value in it, that Spark refuses. ``at``: the character, from 0."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.what = what
        self.at = at


class Characters:
    """Reads the text of one document, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def bad(self, what: str, at: int | None = None) -> BadDocument:
        """Returns the error for the character that was read last, or for the one at ``at``."""
        return BadDocument(what, max(self._at - 1, 0) if at is None else at)

    def peek(self) -> str:
        """Returns the next character without reading it; empty at the end."""
        return self._text[self._at : self._at + 1]

    def char(self, where: str) -> str:
        """Reads one character. Raises BadDocument at the end: ``where`` says inside of what."""
        if self._at >= len(self._text):
            raise self.bad(f"the document ends inside {where}")
        self._at += 1
        return self._text[self._at - 1]

    def skip_space(self) -> str:
        """Returns the next character that is no space; empty at the end."""
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            self._at += 1
            if char > " ":
                if char == "/":
                    raise self.bad("a comment is not allowed")
                return char
            if char not in " \t\r\n":
                raise self.bad(f"the control character {ord(char)} is not allowed")
        return ""

    def string(self, quote: str) -> str:
        """Reads up to the closing quotation mark."""
        pieces = []
        while True:
            stop = _STOPS[quote].search(self._text, self._at)
            start, self._at = self._at, stop.start() if stop else len(self._text)
            pieces.append(self._text[start : self._at])
            char = self.char("a string")
            if char == quote:
                return "".join(pieces)
            if char != "\\":
                raise self.bad(f"the control character {ord(char)} must be escaped in a string")
            pieces.append(self.escape())

    def escape(self) -> str:
        """Reads an escape behind its backslash. Returns the character that it stands for."""
        char = self.char("an escape")
        if char == "u":
            digits = 0
            for _ in range(4):
                digit = self.char("an escape")
                if digit not in "0123456789abcdefABCDEF":
                    raise self.bad("\\u needs four hexadecimal digits")
                digits = digits * 16 + int(digit, 16)
            return chr(digits)
        if char in _ESCAPES:
            return _ESCAPES[char]
        raise self.bad(f"\\{char} is no escape")

    def match(self, word: str, matched: int) -> None:
        """Reads the rest of a word. Raises BadDocument for any other word."""
        for i in range(matched, len(word)):
            if self.peek() != word[i]:
                raise self.unknown_word(word[:i])
            self._at += 1
        char = self.peek()
        if char >= "0" and char not in "]}" and _in_identifier(char):
            raise self.unknown_word(word)

    def unknown_word(self, start: str) -> BadDocument:
        """Returns the error for a word that is none of JSON's. Reads its rest behind ``start``."""
        word = start
        while self.peek() and _in_identifier(self.peek()):
            word += self.peek()
            self._at += 1
            if len(word) >= _ODD_TOKEN_MAX:
                break
        return self.bad("a word without quotes is no JSON value")  # the word may be a secret

    def number(self, start: int) -> tuple[str, bool]:
        """Reads a number from ``start`` on. Returns its text, and whether it is an integer."""
        match = _NUMBER.match(self._text, start)
        if match is None:
            raise self.bad("a number is missing")
        whole, fraction, exponent = match[1], match[2] or "", match[3] or ""
        # Jackson reads numbers that start with 0 in another way. After errors it stands elsewhere.
        zero = whole[0] == "0"
        if zero and len(whole) > 1:
            self._at = match.start(1) + 1
            raise self.bad("a number must not start with 0")
        if fraction == ".":
            self._at = min(match.end(1) + 1 + zero, len(self._text))
            raise self.bad("a digit is missing behind the decimal point")
        exponent_digits = exponent.lstrip("eE+-")
        if exponent and not exponent_digits:
            self._at = min(match.end() + 1, len(self._text)) if zero else match.end(1) + 1
            raise self.bad("a digit is missing in the exponent")
        self._at = match.end()
        integer = not (fraction or exponent)
        missing = 0 if integer else zero * ((not fraction) + (not exponent))
        digits = len(whole) + len(fraction[1:]) + len(exponent_digits) - missing
        if digits > NUMBER_LENGTH_MAX:
            raise self.bad(f"a number has more than {NUMBER_LENGTH_MAX} digits")
        return match[0], integer

    def base64(self) -> bytes:
        """Reads a string in base64 up to its end."""
        if plain := _PLAIN_BASE64.match(self._text, self._at):
            self._at = plain.end()
            return b64decode(plain[1])
        out = bytearray()
        while self._base64_group(out):
            pass
        return bytes(out)

    def _base64_group(self, out: bytearray) -> bool:
        """Reads four characters. Returns False at the end of the string."""
        char = " "
        while char <= " ":
            char = self.char("a string in base64")
        if char == '"':
            return False
        first = self._base64_bits(char, 0)
        if first < 0:  # an escaped space
            return True
        bits = first << 6 | self._base64_bits(self.char("a string in base64"), 1)
        third = self._base64_end(self.char("a string in base64"), 2)
        if third == _PADDING:
            char = self.char("a string in base64")
            if char != "=" and self._base64_bits(char, 3) != _PADDING:
                raise self.bad("the padding of base64 is missing")
            out.append(bits >> 4 & 0xFF)
            return True
        bits = bits << 6 | third
        fourth = self._base64_end(self.char("a string in base64"), 3)
        if fourth == _PADDING:
            out += (bits >> 2 & 0xFFFF).to_bytes(2, "big")
            return True
        out += (bits << 6 | fourth).to_bytes(3, "big")
        return True

    def _base64_end(self, char: str, index: int) -> int:
        """Returns the bits of a third or fourth character, or _PADDING."""
        if char == '"':
            self._at -= 1
            raise self.bad("the padding of base64 is missing", self._at)
        return _PADDING if char == "=" else self._base64_bits(char, index)

    def _base64_bits(self, char: str, index: int) -> int:
        """Returns six bits; _PADDING for an escaped "=", -1 for an escaped space."""
        if char in _BASE64:
            return _BASE64[char]
        if char == "\\":
            unescaped = self.escape()
            if unescaped <= " " and index == 0:
                return -1
            if unescaped in _BASE64:
                return _BASE64[unescaped]
            if unescaped == "=" and index >= 2:
                return _PADDING
        raise self.bad("a character is not of base64")


def starts_identifier(char: str) -> bool:
    """Returns whether a Java identifier may start with a character."""
    return char in "$_" or unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc",
                                                          "Pc")  # fmt: skip


def _in_identifier(char: str) -> bool:
    """Returns whether a character may be part of a Java identifier."""
    if starts_identifier(char) or unicodedata.category(char) in ("Nd", "Mc", "Mn", "Cf"):
        return True
    code = ord(char)
    return code <= 8 or 0x0E <= code <= 0x1B or 0x7F <= code <= 0x9F
