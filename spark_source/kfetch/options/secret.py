"""A value that nobody may see: a password, a key, a token."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kfetch.errors import OptionError

_B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True)
class Secret:
    """Hides its text from ``repr``, ``str`` and format. It is equal to one of the same text.

    A secret travels in the pickled reader and over the agent's socket, and nowhere else.
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Returns the text. Only the code that sends or decrypts something calls this."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __str__(self) -> str:
        return "[hidden]"


def checked_token(option: str, token: Secret) -> Secret:
    """Returns a token if it has the characters of one (RFC 6750, section 2.1)."""
    if _B64TOKEN.fullmatch(token.reveal()) is None:
        raise OptionError.about(
            option,
            "has a character that no token has",
            action="set it to the token alone, without Bearer",
        )
    return token
