"""Options of SASL for the tests: required ones, and the text of a log-in module."""

from __future__ import annotations

from kfetch.options.sasl import SaslOptions
from kfetch.spark.options import parse

REQUIRED = {
    "kafka.bootstrap.servers": "h:1",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_PLAINTEXT",
}
JAAS = "kafka.sasl.jaas.config"
HANDLER = "kafka.sasl.login.callback.handler.class"
OIDC = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.example/token?x=1",
}
NEW_CREDENTIALS = {
    **OIDC,
    "kafka.sasl.oauthbearer.client.credentials.client.id": "me",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "hush",
}


def module(name: str, **options: str) -> str:
    """The text of a log-in module."""
    pairs = [f'{option}="{value}"' for option, value in options.items()]
    return " ".join([f"a.b.{name} required", *pairs]) + ";"


def of(options: dict[str, str]) -> SaslOptions:
    """The settings of options."""
    found = parse({**REQUIRED, **options}).network.security.sasl
    assert found is not None
    return found
