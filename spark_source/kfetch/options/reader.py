"""Reads options by name: from the text of one to its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kfetch.errors import OptionError
from kfetch.options.secret import Secret

T = TypeVar("T")


class OptionReader:
    """Reads one option at a time. The error for an invalid text names the option."""

    def __init__(self, lowered: Mapping[str, str]) -> None:
        self._lowered = lowered

    def names(self, prefix: str) -> list[str]:
        """Return the names of the options that begin with ``prefix``, all in lower case."""
        return [name for name in self._lowered if name.startswith(prefix)]

    def __call__(self, name: str, convert: Callable[[str], T], default: Any) -> Any:
        """Return the converted text of an option, or ``default`` if it is not set."""
        text = self._lowered.get(name.lower())
        if text is None:
            return default
        try:
            return convert(text.strip())
        except ValueError as problem:
            raise OptionError(
                f"option {name} is {text!r}, but it must be {problem}", option=name
            ) from None

    def password(self, name: str) -> Secret | None:
        """Return an option's secret with its outer white space, as JAAS keeps it.

        Only line ends at its end are left out, because a file's text has one. Java's client strips
        its own options of type PASSWORD, such as ``ssl.key.password``. They are read like others.
        """
        text = self._lowered.get(name.lower())
        return None if text is None else Secret(text.rstrip("\r\n"))
