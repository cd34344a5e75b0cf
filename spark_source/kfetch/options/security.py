"""How connections are secured: the listener's protocol, and its TLS and SASL settings."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.options.converters import one_of
from kfetch.options.oauth import ClientCredentials, OauthLogin
from kfetch.options.option import Option, OptionReader
from kfetch.options.sasl import KerberosLogin, SaslOptions, sasl_options
from kfetch.options.tls import TlsOptions, tls_options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PROTOCOL = Option(
    "kafka.security.protocol",
    "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    one_of(*PROTOCOLS),
    "PLAINTEXT",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """What a connection needs before its first request. Without both fields it is PLAINTEXT."""

    tls: TlsOptions | None = None
    sasl: SaslOptions | None = None

    @property
    def user(self) -> str:
        """The name of the user that logs in, for errors; empty if the options don't tell it."""
        return self.sasl.user if self.sasl else ""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that connections and log-ins read, as the options name them."""
        parts: list[TlsOptions | KerberosLogin] = [self.tls] if self.tls else []
        login = self.sasl.login if self.sasl else None
        if isinstance(login, KerberosLogin):
            parts.append(login)
        if isinstance(login, OauthLogin) and isinstance(login.source, ClientCredentials):
            parts.append(login.source.tls)
        return tuple(path for part in parts for path in part.files)


def security(read: OptionReader) -> SecurityOptions:
    """Returns the security of ``kafka.security.protocol``, ``kafka.ssl.*`` and ``kafka.sasl.*``.

    Settings that the protocol does not use have no effect, as in Kafka's own clients.
    ``catalogue.unused_names`` returns them.
    """
    protocol: str = read(PROTOCOL)
    return SecurityOptions(
        tls=tls_options(read) if protocol in ("SSL", "SASL_SSL") else None,
        sasl=sasl_options(read) if protocol.startswith("SASL_") else None,
    )
