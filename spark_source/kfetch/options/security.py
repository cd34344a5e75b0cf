"""How connections are secured: the listener's protocol, and its TLS and SASL settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfetch.errors import OptionError
from kfetch.options.catalogue import Treatment, lookup
from kfetch.options.reader import OptionReader
from kfetch.options.sasl import SaslOptions, sasl_options
from kfetch.options.tls import TlsOptions, tls_options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """What a connection needs before its first request. Without both fields it is PLAINTEXT."""

    tls: TlsOptions | None = None
    sasl: SaslOptions | None = None

    @property
    def user(self) -> str:
        """The name of the user that logs in, for errors; empty if the options don't tell it."""
        return self.sasl.user if self.sasl else ""


def security(read: OptionReader) -> SecurityOptions:
    """Return the security of ``kafka.security.protocol``, ``kafka.ssl.*`` and ``kafka.sasl.*``.

    Settings that the protocol does not use have no effect, as in Kafka's own clients.
    ``unused_names`` returns them.
    """
    protocol: str = read("kafka.security.protocol", str.upper, "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise OptionError(
            f"option kafka.security.protocol is {protocol!r}, but it must be one of "
            f"{', '.join(PROTOCOLS)}",
            option="kafka.security.protocol",
        )
    return SecurityOptions(
        tls=tls_options(read) if protocol in ("SSL", "SASL_SSL") else None,
        sasl=sasl_options(read) if protocol.startswith("SASL_") else None,
    )


def unused_names(names: Iterable[str], chosen: SecurityOptions) -> tuple[str, ...]:
    """Return the names of built TLS and SASL options that the chosen protocol does not use."""
    settings = {"kafka.ssl.": chosen.tls, "kafka.sasl.": chosen.sasl}
    unused = tuple(prefix for prefix, value in settings.items() if value is None)
    rows = [lookup(name) for name in names if name.lower().startswith(unused)]
    return tuple(sorted(row.name for row in rows if row and row.treatment is Treatment.BUILT))
