"""TLS: whom to trust, and who we are (``kafka.ssl.*``)."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.errors import NotBuilt
from kfetch.options.reader import OptionReader


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """The settings of TLS."""


def tls_options(read: OptionReader) -> TlsOptions:
    """Return the settings of ``kafka.ssl.*``."""
    raise NotBuilt("TLS is not built yet", option="kafka.security.protocol")
