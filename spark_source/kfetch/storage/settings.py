"""A store's settings among those of Spark, by their short names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kfetch.errors import OptionError

_PRINTABLE = re.compile(r"[!-~]+")
_PROXY = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}")


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

    def client_options(self, url: str, proxy: str, proxy_name: str) -> dict[str, Any]:
        """Returns obstore's argument for an endpoint without TLS, and for a proxy.

        ``proxy``: host and port, or nothing. ``proxy_name``: its setting, for the error.
        """
        if proxy and not _PROXY.fullmatch(proxy):
            raise self.error(proxy_name, "{} is no address of a proxy", "name a host and a port")
        options = {
            **({"allow_http": True} if url.startswith("http:") else {}),
            **({"proxy_url": f"http://{proxy}"} if proxy else {}),
        }
        return {"client_options": options} if options else {}
