"""The secured listeners of a local Kafka: users, server properties, properties of clients.

Pure: values from values. A node keeps its PLAINTEXT listener. Its anonymous user is the super user:
the broker uses that listener, and so do the tools that create topics and users.

    SSL              TLS; clients stay anonymous
    MTLS             TLS; each client shows a certificate, whose CN is the user
    SASL_PLAINTEXT   a log-in without TLS
    SASL_SSL         a log-in within TLS

Both SASL listeners take PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Their tokens are
unsecured JWS (RFC 7515), which Kafka offers for tests alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kfetch_jobs.kafka.settings import HOST

__all__ = [
    "LISTENERS",
    "MECHANISMS",
    "USERS",
    "Access",
    "Listener",
    "client_properties",
    "jaas",
    "listener_properties",
    "network_properties",
    "shared_properties",
]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class Access(StrEnum):
    """What a user may do with every topic."""

    READ = "read"
    DESCRIBE = "describe"
    """See topics, and read none."""


USERS = {"reader": Access.READ, "denied": Access.DESCRIBE}
"""The users of the SASL listeners and of client certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A secured listener."""

    protocol: str
    """The value of ``security.protocol``."""
    client_certificate: bool = False
    """Whether a client must show a certificate."""
    certificate: str = "broker"
    """The name of the broker's certificate: ``NAME.pem`` has it with its key."""

    @property
    def tls(self) -> bool:
        """Whether clients speak TLS."""
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")


LISTENERS: Mapping[str, Listener] = {
    "SSL": Listener(protocol="SSL"),
    "MTLS": Listener(protocol="SSL", client_certificate=True),
    "SASL_PLAINTEXT": Listener(protocol="SASL_PLAINTEXT"),
    "SASL_SSL": Listener(protocol="SASL_SSL"),
    # For tests of errors: certificates that no client may accept.
    "EXPIRED": Listener(protocol="SSL", certificate="expired"),
    "ELSEWHERE": Listener(protocol="SSL", certificate="elsewhere"),
}


def shared_properties() -> dict[str, str]:
    """Returns the properties of the authorizer, and of names in certificates."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        # CN=reader,O=… is User:reader.
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }


def network_properties(port: int, controller_port: int, ports: Mapping[str, int]) -> dict[str, str]:
    """Returns the listeners of a node that is its own controller. ``ports`` are those of LISTENERS.

    They replace what ``kfetch_jobs.kafka.settings`` writes for a node without secured listeners.
    """
    secured = [f"{name}://{HOST}:{number}" for name, number in ports.items()]
    clients = ",".join([f"BROKER://{HOST}:{port}", *secured])
    protocols = [f"{name}:{LISTENERS[name].protocol}" for name in ports]
    return {
        "listeners": f"{clients},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(
            ["BROKER:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]
        ),
    }


def listener_properties(name: str, directory: Path, passwords: Mapping[str, str]) -> dict[str, str]:
    """Returns one listener's properties. ``directory`` has the certificates."""
    listener = LISTENERS[name]
    values: dict[str, str] = {}
    if listener.tls:
        values |= _tls(listener, directory)
    if listener.sasl:
        values |= _sasl(passwords)
    return {f"listener.name.{name.lower()}.{key}": value for key, value in values.items()}


def _tls(listener: Listener, directory: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / f"{listener.certificate}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "required" if listener.client_certificate else "none",
    }


def _sasl(passwords: Mapping[str, str]) -> dict[str, str]:
    users = {f"user_{name}": password for name, password in passwords.items()}
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "plain.sasl.jaas.config": jaas("plain.PlainLoginModule", users),
        "scram-sha-256.sasl.jaas.config": jaas("scram.ScramLoginModule", {}),
        "scram-sha-512.sasl.jaas.config": jaas("scram.ScramLoginModule", {}),
        "oauthbearer.sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", {}),
    }


def jaas(module: str, options: Mapping[str, str]) -> str:
    """Returns a JAAS configuration. ``module`` is a class of Kafka's security package."""
    words = [f'{name}="{value}"' for name, value in options.items()]
    return " ".join([f"org.apache.kafka.common.security.{module}", "required", *words]) + ";"


def client_properties(
    name: str,
    servers: str,
    directory: Path,
    *,
    user: str = "",
    password: str = "",
    mechanism: str = "",
) -> dict[str, str]:
    """Returns the properties with which a client of Kafka uses a listener.

    They have no prefix ``kafka.``. ``mechanism`` is one of MECHANISMS, and counts for SASL alone.
    """
    listener = LISTENERS[name]
    values = {
        "bootstrap.servers": servers,
        "security.protocol": listener.protocol,
    }
    if listener.tls:
        values |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
    if listener.client_certificate:
        values |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / f"{user}.pem"),
        }
    if listener.sasl:
        login = _login(mechanism, user, password)
        values |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return values


def _login(mechanism: str, user: str, password: str) -> str:
    if mechanism == "OAUTHBEARER":
        claims = {"unsecuredLoginStringClaim_sub": user}
        return jaas("oauthbearer.OAuthBearerLoginModule", claims)
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return jaas(module, {"username": user, "password": password})
