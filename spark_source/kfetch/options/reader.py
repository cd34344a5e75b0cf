"""Reads options by name: from the text of one to its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kfetch.errors import OptionError

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
