"""SASL: how a connection logs in (``kafka.sasl.*``)."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.errors import NotBuilt
from kfetch.options.reader import OptionReader


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """The settings of a log-in."""


def sasl_options(read: OptionReader) -> SaslOptions:
    """Return the settings of ``kafka.sasl.*``."""
    raise NotBuilt("SASL is not built yet", option="kafka.security.protocol")
