"""A value that nobody may see: a password, a key, a token."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """Hides its text from ``repr``, ``str`` and format. It is equal to one of the same text.

    A secret travels in the pickled reader and over the agent's socket, and nowhere else.
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the text. Only the code that sends or decrypts something calls this."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __str__(self) -> str:
        return "[hidden]"
