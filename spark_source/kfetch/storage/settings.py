"""A store's settings among those of Spark, by their short names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kfetch.errors import OptionError

PLAIN_HTTP = {"client_options": {"allow_http": True}}
"""The argument of obstore's stores for an endpoint without TLS."""

_PRINTABLE = re.compile(r"[!-~]+")


class StoreSettings:
    """The settings of one bucket or container."""

    def __init__(self, settings: Mapping[str, str], forms: Sequence[str], shown: str) -> None:
        """``forms``: the full names of a setting, with {} for the short one. The first one wins.

        ``shown``: the form in errors.
        """
        self.forms = forms
        self._all, self._shown = settings, shown

    def get(self, name: str, default: str = "") -> str:
        """Returns a value without blanks at its ends."""
        names = (form.format(name) for form in self.forms)
        return next((self._all[one].strip() for one in names if one in self._all), "") or default

    def is_true(self, name: str, default: str) -> bool:
        """Returns whether a value is true."""
        return self.get(name, default).lower() == "true"

    def printable(self, name: str, what: str) -> str:
        """Returns a value. Raises OptionError if it has a character that no ``what`` has."""
        if (value := self.get(name)) and not _PRINTABLE.fullmatch(value):
            action = "correct it: it may have a blank or a line's end within"
            raise self.error(name, f"{{}} has a character that no {what}", action)
        return value

    def error(self, name: str, sentence: str, action: str) -> OptionError:
        """Returns the error about a setting. ``sentence``: with {} for its full name."""
        full = self._shown.format(name)
        return OptionError(sentence.format(full), action=action, option=name)
