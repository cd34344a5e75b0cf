"""The options of SASL: which values they give, which mistakes they name, and that they hide."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kfetch.options.catalogue import lookup
from kfetch.options.oauth import (
    ClientCredentials,
    OauthLogin,
    StaticToken,
    TokenFile,
    TokenProvider,
    UnsecuredToken,
)
from kfetch.options.sasl import AwsLogin, KerberosLogin, PasswordLogin, SaslOptions
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.spark.options import parse
from tests.kfetch.options.sasl_texts import (
    HANDLER,
    JAAS,
    NEW_CREDENTIALS,
    OIDC,
    REQUIRED,
    module,
    of,
)


def sasl(**options: str) -> SaslOptions:
    """The settings of options, whose names have no ``kafka.sasl.`` and _ for dots."""
    named = {f"kafka.sasl.{name.replace('_', '.')}": value for name, value in options.items()}
    return of(named)


ALICE = PasswordLogin(user="alice", password=Secret("hush"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "scram-sha-256"])
def test_a_user_and_a_password(mechanism: str) -> None:
    """Either as two options, or as Java's text."""
    name = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    text = module(name, username="alice", password="hush")
    expected = SaslOptions(mechanism=mechanism.upper(), login=ALICE)

    assert expected == sasl(mechanism=mechanism, username="alice", password="hush")
    assert expected == sasl(mechanism=mechanism, jaas_config=text)
    assert "alice" == expected.user


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_white_space_around_a_password(end: str) -> None:
    """It belongs to the password, as within the quotation marks of JAAS. A file's last line end
    does not.
    """
    expected = PasswordLogin(user="alice", password=Secret(" hu sh\t"))

    own = sasl(mechanism="PLAIN", username=" alice ", password=f" hu sh\t{end}")
    assert expected == own.login
    text = module("PlainLoginModule", username="alice", password=" hu sh\t")
    assert expected == sasl(mechanism="PLAIN", jaas_config=f" {text} ").login


CREDENTIALS = ClientCredentials(
    url="https://idp.example/token?x=1", client_id="me", client_secret=Secret("hush")
)


def bearer(source: Any, **extensions: str) -> SaslOptions:
    """The settings of OAUTHBEARER."""
    login = OauthLogin(source=source, extensions=tuple(extensions.items()))
    return SaslOptions(mechanism="OAUTHBEARER", login=login)


def changed(**fields: Any) -> ClientCredentials:
    """The client credentials of the tests, with other fields."""
    made = {name: getattr(CREDENTIALS, name) for name in CREDENTIALS.__slots__}
    return ClientCredentials(**{**made, **fields})


BEARER = [
    (
        {**OIDC, JAAS: module("OAuthBearerLoginModule", clientId="me", clientSecret="hush")},
        bearer(CREDENTIALS),
    ),
    (NEW_CREDENTIALS, bearer(CREDENTIALS)),
    (
        {
            **NEW_CREDENTIALS,
            "kafka.sasl.oauthbearer.scope": "read",
            JAAS: module("OAuthBearerLoginModule", clientId="old", scope="old"),
        },
        bearer(changed(scope="read")),
    ),
    (
        {
            **NEW_CREDENTIALS,
            JAAS: module(
                "OAuthBearerLoginModule",
                extension_logicalCluster="lkc-1",
                extension_identityPoolId="pool-2",
            ),
        },
        bearer(CREDENTIALS, logicalCluster="lkc-1", identityPoolId="pool-2"),
    ),
    (
        {
            **NEW_CREDENTIALS,
            "kafka.sasl.login.connect.timeout.ms": "1000",
            "kafka.sasl.login.read.timeout.ms": "2000",
            "kafka.sasl.login.retry.backoff.ms": "30",
            "kafka.sasl.login.retry.backoff.max.ms": "4000",
            "kafka.sasl.oauthbearer.header.urlencode": "true",
            JAAS: module(
                "OAuthBearerLoginModule", **{"ssl.truststore.location": "/ca.pem"}, scope="a b"
            ),
        },
        bearer(
            changed(
                connect_timeout_s=1.0,
                read_timeout_s=2.0,
                backoff_s=0.03,
                backoff_max_s=4.0,
                urlencode=True,
                tls=TlsOptions(truststore=Store(location="/ca.pem")),
                scope="a b",
            )
        ),
    ),
    (
        {
            **NEW_CREDENTIALS,
            JAAS: module(
                "OAuthBearerLoginModule",
                **{
                    "ssl.truststore.location": "/ca.p12",
                    "ssl.truststore.type": "PKCS12",
                    "ssl.truststore.password": "hush",
                    "ssl.keystore.location": "/me.pem",
                    "ssl.protocol": "TLSv1.2",
                },
            ),
            "kafka.ssl.truststore.location": "/brokers.pem",
        },
        bearer(
            changed(
                tls=TlsOptions(
                    truststore=Store(location="/ca.p12", password=Secret("hush")),
                    keystore=Store(location="/me.pem"),
                    max_version="TLSv1.2",
                )
            )
        ),
    ),
    (
        {
            **NEW_CREDENTIALS,
            JAAS: module("OAuthBearerLoginModule", **{"ssl.truststore.certificates": "PEM text"}),
        },
        bearer(changed(tls=TlsOptions(truststore=Store(pem=Secret("PEM text"))))),
    ),
    (
        {**OIDC, "kafka.sasl.oauthbearer.token.endpoint.url": "file:///run/token"},
        bearer(TokenFile(path="/run/token")),
    ),
    (
        {"kafka.sasl.mechanism": "OAUTHBEARER", "kfetch.oauth.token": "abc.def"},
        bearer(StaticToken(token=Secret("abc.def"))),
    ),
    (
        {"kafka.sasl.mechanism": "OAUTHBEARER", "kfetch.oauth.provider": "my.auth:bearer"},
        bearer(TokenProvider(module="my.auth", function="bearer")),
    ),
    (
        {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            JAAS: module(
                "OAuthBearerLoginModule",
                unsecuredLoginStringClaim_sub="alice",
                unsecuredLoginListClaim_scope=",a,b",
                unsecuredLoginNumberClaim_level="3",
                unsecuredLoginLifetimeSeconds="60",
                unsecuredLoginExtension_pool="p",
            ),
        },
        bearer(
            UnsecuredToken(
                claims=(("sub", "alice"), ("scope", ("a", "b")), ("level", 3.0)), lifetime_s=60.0
            ),
            pool="p",
        ),
    ),
]


@pytest.mark.parametrize(("options", "expected"), BEARER)
def test_sources_of_tokens(options: dict[str, str], expected: SaslOptions) -> None:
    """Each way to a token, in Kafka's older and newer names and in kfetch's own."""
    assert expected == of(options)
    assert hash(expected) == hash(copy.deepcopy(expected))


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        "kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    ],
)
def test_known_handlers(name: str) -> None:
    """Classes whose work kfetch does itself change nothing."""
    assert of({**NEW_CREDENTIALS, HANDLER: name}) == bearer(CREDENTIALS)


def test_a_provider_replaces_a_handler() -> None:
    """A Python function does the work of any class of Java."""
    options = {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kfetch.oauth.provider": "m:f",
        HANDLER: "com.example.Mine",
    }

    assert of(options) == bearer(TokenProvider(module="m", function="f"))


def test_msk_as_java_users_write_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's module and handler, with a profile or a role."""
    monkeypatch.setattr("kfetch.options.security.tls_options", lambda read: None)
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam."
        "IAMClientCallbackHandler",
        JAAS: module(
            "IAMLoginModule",
            awsProfileName="p",
            awsRoleArn="arn:aws:iam::1:role/r",
            awsRoleSessionName="s",
            awsStsRegion="eu-west-1",
            awsRoleExternalId="hush",
        ),
        "kfetch.msk.region": "eu-west-2",
    }

    assert of(options).login == AwsLogin(
        profile="p",
        role_arn="arn:aws:iam::1:role/r",
        role_session_name="s",
        sts_region="eu-west-1",
        role_external_id=Secret("hush"),
        region="eu-west-2",
    )


@pytest.mark.parametrize(
    ("options", "expected", "user"),
    [
        (
            {"kafka.sasl.kerberos.service.name": "kafka"},
            KerberosLogin(service_name="kafka"),
            "",
        ),
        (
            {
                "kafka.sasl.mechanism": "GSSAPI",
                JAAS: module(
                    "Krb5LoginModule",
                    useKeyTab="true",
                    storeKey="true",
                    keyTab="/etc/a.keytab",
                    principal="alice/h@EXAMPLE",
                    serviceName="kafka",
                ),
            },
            KerberosLogin(
                service_name="kafka", principal="alice/h@EXAMPLE", keytab="/etc/a.keytab"
            ),
            "alice",
        ),
        (
            {
                "kafka.sasl.kerberos.service.name": "bus",
                JAAS: module("Krb5LoginModule", useTicketCache="true", serviceName="kafka"),
            },
            KerberosLogin(service_name="bus"),
            "",
        ),
    ],
)
def test_kerberos(options: dict[str, str], expected: KerberosLogin, user: str) -> None:
    """GSSAPI is Kafka's default mechanism. A ticket comes by a keytab or from the cache."""
    assert SaslOptions(mechanism="GSSAPI", login=expected) == of(options)
    assert user == of(options).user


def test_without_sasl_its_options_have_no_effect() -> None:
    """A listener without SASL ignores them, as Kafka's clients do."""
    options = {**REQUIRED, "kafka.security.protocol": "PLAINTEXT", "kafka.sasl.mechanism": "x"}

    assert parse(options).network.security.sasl is None


def test_properties_of_kafka() -> None:
    """Every SASL property of Kafka 4.3's clients has a row of its own, or a family."""
    missing = [name for name in PROPERTIES.split() if lookup(f"kafka.{name}") is None]

    assert [] == missing
    assert lookup("kafka.sasl.nonsense") is None


PROPERTIES = """
sasl.mechanism sasl.jaas.config sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class sasl.kerberos.service.name
sasl.kerberos.kinit.cmd sasl.kerberos.ticket.renew.window.factor sasl.kerberos.ticket.renew.jitter
sasl.kerberos.min.time.before.relogin sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
sasl.login.refresh.buffer.seconds sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.scope.claim.name
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
"""
"""The constants of org.apache.kafka.common.config.SaslConfigs, one of each family."""
