"""The catalogue's rows of SASL: (name, default, meaning) of each option, by its treatment."""

from __future__ import annotations

__all__ = ["BUILT", "IGNORED", "PLANNED", "REFUSED"]

Row = tuple[str, str, str]

BUILT: tuple[Row, ...] = (
    (
        "kafka.sasl.mechanism",
        "GSSAPI",
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`",
    ),
    (
        "kafka.sasl.jaas.config",
        "none",
        "Java's text of a log-in module with its user, password or other options; secret",
    ),
    ("kafka.sasl.username", "none", "user of PLAIN and SCRAM; kfetch's own, instead of JAAS"),
    ("kafka.sasl.password", "none", "password of this user; secret"),
    (
        "kafka.sasl.client.callback.handler.class",
        "none",
        "`…IAMClientCallbackHandler` for AWS_MSK_IAM; kfetch does its work itself",
    ),
    (
        "kafka.sasl.login.callback.handler.class",
        "none",
        "`…OAuthBearerLoginCallbackHandler`; kfetch does its work itself",
    ),
    (
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "none",
        "where OAUTHBEARER gets tokens: `https://…` of an OIDC provider, or `file:///…`",
    ),
    ("kafka.sasl.oauthbearer.client.credentials.client.id", "none", "`clientId` in JAAS, too"),
    (
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
        "none",
        "`clientSecret` in JAAS, too; secret",
    ),
    ("kafka.sasl.oauthbearer.scope", "none", "`scope` in JAAS, too"),
    (
        "kafka.sasl.oauthbearer.header.urlencode",
        "false",
        "URL-encode id and secret in the header, as RFC 6749 wants it",
    ),
    (
        "kafka.sasl.oauthbearer.jwt.retriever.class",
        "none",
        "Kafka's class for client credentials or files; kfetch does its work itself",
    ),
    (
        "kafka.sasl.login.connect.timeout.ms",
        "10000",
        "the longest time of connecting to the token endpoint",
    ),
    (
        "kafka.sasl.login.read.timeout.ms",
        "10000",
        "the longest time of its answer",
    ),
    ("kafka.sasl.login.retry.backoff.ms", "100", "first pause before asking it again"),
    ("kafka.sasl.login.retry.backoff.max.ms", "10000", "longest pause before asking it again"),
    ("kafka.sasl.kerberos.service.name", "none", "`serviceName` in JAAS, too"),
    ("kfetch.oauth.token", "none", "a token for OAUTHBEARER; secret, and nothing renews it"),
    (
        "kfetch.oauth.provider",
        "none",
        "`module:function`: a Python function that returns a token and its expiry",
    ),
    (
        "kfetch.msk.region",
        "none",
        "AWS region of the cluster, if its host names do not tell it",
    ),
)

PLANNED: tuple[Row, ...] = (
    (
        "kafka.sasl.oauthbearer.assertion.*",
        "none",
        "log-in by a signed assertion: use client credentials or kfetch.oauth.provider",
    ),
)

REFUSED: tuple[Row, ...] = (
    (
        "kafka.sasl.login.class",
        "none",
        "a class of Java: use kfetch.oauth.provider=module:function",
    ),
)

_OWN_RENEWAL = "kfetch renews a token after 80 % of its time"
_KINIT = "kfetch gets tickets with the library gssapi"
_BROKER = "a setting of brokers"

IGNORED: tuple[Row, ...] = (
    ("kafka.sasl.login.refresh.*", "none", _OWN_RENEWAL),
    ("kafka.sasl.kerberos.kinit.cmd", "none", _KINIT),
    ("kafka.sasl.kerberos.ticket.renew.window.factor", "none", _KINIT),
    ("kafka.sasl.kerberos.ticket.renew.jitter", "none", _KINIT),
    ("kafka.sasl.kerberos.min.time.before.relogin", "none", _KINIT),
    ("kafka.sasl.oauthbearer.jwt.validator.class", "none", "the broker checks the token"),
    ("kafka.sasl.oauthbearer.scope.claim.name", "none", "the broker checks the token"),
    ("kafka.sasl.oauthbearer.sub.claim.name", "none", "the broker checks the token"),
    ("kafka.sasl.oauthbearer.clock.skew.seconds", "none", _BROKER),
    ("kafka.sasl.oauthbearer.expected.audience", "none", _BROKER),
    ("kafka.sasl.oauthbearer.expected.issuer", "none", _BROKER),
    ("kafka.sasl.oauthbearer.jwks.*", "none", _BROKER),
)
