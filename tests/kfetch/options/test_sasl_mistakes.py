"""Mistakes in the options of SASL: each has one sentence, and none shows a secret."""

from __future__ import annotations

import pickle
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.catalogue import OPTIONS
from kfetch.options.option import Treatment
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

_SOURCES = (
    "Set one of kafka.sasl.oauthbearer.token.endpoint.url (with clientId and clientSecret), "
    "kfetch.oauth.provider (module:function) and kfetch.oauth.token"
)
_PLAIN = {"kafka.sasl.mechanism": "PLAIN"}
_SCRAM = {"kafka.sasl.mechanism": "SCRAM-SHA-256"}
_BEARER = {"kafka.sasl.mechanism": "OAUTHBEARER"}
_URL = "kafka.sasl.oauthbearer.token.endpoint.url"
_BOTH = "set kafka.sasl.username and kafka.sasl.password, or kafka.sasl.jaas.config"


def _unsecured(**options: str) -> str:
    """The text of a log-in module with an unsecured token."""
    return module("OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="a", **options)


MISTAKES: list[tuple[dict[str, str], str]] = [
    (
        {},
        "option kafka.sasl.mechanism is GSSAPI (its default), but kafka.sasl.kerberos.service.name "
        "is missing: set kafka.sasl.kerberos.service.name, which is mostly kafka, or another "
        "kafka.sasl.mechanism",
    ),
    (
        {"kafka.sasl.username": "a", "kafka.sasl.password": "b"},
        "option kafka.sasl.mechanism is GSSAPI (its default), but kafka.sasl.username is a user "
        "with a password: set kafka.sasl.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    ),
    (
        {"kafka.sasl.mechanism": "DIGEST-MD5"},
        "option kafka.sasl.mechanism is 'DIGEST-MD5', but it must be one of GSSAPI, PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM",
    ),
    (_PLAIN, f"option kafka.sasl.mechanism is PLAIN, but kafka.sasl.username is missing: {_BOTH}"),
    (
        {**_PLAIN, "kafka.sasl.username": "a"},
        f"option kafka.sasl.mechanism is PLAIN, but kafka.sasl.password is missing: {_BOTH}",
    ),
    (
        {**_PLAIN, JAAS: module("PlainLoginModule", username="a")},
        f'PlainLoginModule in option {JAAS} has no password: add password="…"',
    ),
    (
        {**_PLAIN, JAAS: module("PlainLoginModule", username="a", password="")},
        f'PlainLoginModule in option {JAAS} has no password: add password="…"',
    ),
    (
        {JAAS: module("ScramLoginModule", username="a", password="hush")},
        "option kafka.sasl.mechanism is GSSAPI by default, which needs Krb5LoginModule, but option "
        f"{JAAS} names ScramLoginModule: set kafka.sasl.mechanism=SCRAM-SHA-256 or SCRAM-SHA-512",
    ),
    (
        {**_PLAIN, JAAS: module("OtherLoginModule")},
        f"option kafka.sasl.mechanism is PLAIN, which needs PlainLoginModule, but option {JAAS} "
        f"names OtherLoginModule: change {JAAS}",
    ),
    (
        {**_PLAIN, JAAS: module("PlainLoginModule"), "kafka.sasl.username": "a"},
        f"options {JAAS} and kafka.sasl.username both name a user: remove one of them",
    ),
    (
        {**_PLAIN, "kafka.sasl.username": "a", "kafka.sasl.password": "hu\0sh"},
        "the user or the password of SASL has a NUL character, which PLAIN and SCRAM forbid",
    ),
    (
        _BEARER,
        "option kafka.sasl.mechanism is OAUTHBEARER, but no option names a source of tokens. "
        + _SOURCES,
    ),
    (
        {**_BEARER, "kfetch.oauth.token": "hush", "kfetch.oauth.provider": "m:f"},
        "options kfetch.oauth.token and kfetch.oauth.provider each name a source of tokens. "
        + _SOURCES,
    ),
    (
        {**_BEARER, "kfetch.oauth.provider": "m.f"},
        "option kfetch.oauth.provider is 'm.f', but it must be the name of a Python function, "
        "written as module:function",
    ),
    (
        {**_BEARER, "kfetch.oauth.token": "Bearer hush"},
        "option kfetch.oauth.token has a character that no token has: set it to the token alone, "
        "without Bearer",
    ),
    (
        OIDC,
        "option kafka.sasl.oauthbearer.token.endpoint.url needs a client id: set "
        "kafka.sasl.oauthbearer.client.credentials.client.id and "
        "kafka.sasl.oauthbearer.client.credentials.client.secret, or clientId and clientSecret in "
        + JAAS,
    ),
    (
        {**_BEARER, "kafka.sasl.oauthbearer.token.endpoint.url": "idp.example/hush"},
        "option kafka.sasl.oauthbearer.token.endpoint.url is no URL of http, https or file: write "
        "it as https://host/path",
    ),
    (
        {**_BEARER, "kafka.sasl.oauthbearer.token.endpoint.url": "https://me:hush@idp/"},
        "option kafka.sasl.oauthbearer.token.endpoint.url must not hold a user or password: set "
        "kafka.sasl.oauthbearer.client.credentials.client.id and "
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
    ),
    (
        {**_BEARER, _URL: "https://idp.example:65536/hush"},
        f"option {_URL} has a port that is none: use 1 to 65535",
    ),
    (
        {**_BEARER, _URL: "https://[::1::]:443/hush"},
        f"option {_URL} is no URL of http, https or file: write it as https://host/path",
    ),
    *(
        (
            {**_BEARER, JAAS: _unsecured(unsecuredLoginLifetimeSeconds=lifetime)},
            f"unsecuredLoginLifetimeSeconds in option {JAAS} is not larger than 0",
        )
        for lifetime in ("0", "-1")
    ),
    *(
        (
            {**_BEARER, JAAS: _unsecured(**{name: number})},
            f"a number of the unsecured token in option {JAAS} is none",
        )
        for name in ("unsecuredLoginLifetimeSeconds", "unsecuredLoginNumberClaim_x")
        for number in ("nan", "inf", "-inf", "1e999", "hush")
    ),
    (
        {**_BEARER, JAAS: module("OAuthBearerLoginModule", unsecuredLoginStringClaim_x="hush")},
        f"the unsecured token in option {JAAS} needs its principal, and may set neither iat nor "
        'exp: set unsecuredLoginStringClaim_sub="…"',
    ),
    (
        {**_BEARER, JAAS: module("OAuthBearerLoginModule", unsecuredLoginLifetimeSeconds="hush")},
        f"the unsecured token in option {JAAS} needs its principal, and may set neither iat nor "
        'exp: set unsecuredLoginStringClaim_sub="…"',
    ),
    (
        {
            **NEW_CREDENTIALS,
            JAAS: module("OAuthBearerLoginModule", extension_auth="hush"),
        },
        f"an extension_… in option {JAAS} has a name that SASL forbids: use letters alone, and "
        "another name than auth",
    ),
    (
        {**NEW_CREDENTIALS, JAAS: module("OAuthBearerLoginModule", extension_pool="")},
        f"extension_pool in option {JAAS} is empty or has a forbidden character",
    ),
    (
        {"kafka.sasl.mechanism": "AWS_MSK_IAM"},
        "option kafka.sasl.mechanism is AWS_MSK_IAM, which needs TLS: set "
        "kafka.security.protocol=SASL_SSL",
    ),
    (
        {
            "kafka.sasl.mechanism": "GSSAPI",
            JAAS: module("Krb5LoginModule", useKeyTab="true", keyTab="/k", serviceName="kafka"),
        },
        f'Krb5LoginModule in option {JAAS} has a keyTab and no principal: add principal="…"',
    ),
    (
        {**_PLAIN, "kafka.sasl.user": "a"},
        "option kafka.sasl.user is not known: did you mean kafka.sasl.username?",
    ),
    (
        {**_PLAIN, "kafka.sasl.mechanisms": "PLAIN"},
        "option kafka.sasl.mechanisms is not known: did you mean kafka.sasl.mechanism?",
    ),
    (
        {**_PLAIN, "kafka.sasl.login.class": "x"},
        "option kafka.sasl.login.class is not supported: a class of Java: use "
        "kfetch.oauth.provider=module:function",
    ),
    *(
        (
            {**NEW_CREDENTIALS, JAAS: module("OAuthBearerLoginModule", **stores)},
            f"{name} in option {JAAS} is wrong, or does not fit the other ssl.* there: "
            "docs/how-to/tls.md has the values of kafka.ssl.*, which are valid there",
        )
        for name, stores in (
            ("ssl.truststore.type", {"ssl.truststore.type": "hush"}),
            ("ssl.truststore.location", {"ssl.truststore.password": "hush"}),
            (
                "ssl.truststore.certificates",
                {"ssl.truststore.location": "/a.pem", "ssl.truststore.certificates": "hush"},
            ),
        )
    ),
]
NOT_BUILT: list[tuple[dict[str, str], str]] = [
    (
        {**_SCRAM, JAAS: module("ScramLoginModule", username="a", password="b", tokenauth="true")},
        f"delegation tokens (tokenauth in option {JAAS}) are not built yet: use a user of SCRAM "
        "and its password",
    ),
    (
        {**_BEARER, HANDLER: "com.example.Mine"},
        f"option {HANDLER} names a class of Java that kfetch does not know: set "
        "kfetch.oauth.provider=module:function, a Python function that returns a token",
    ),
    (
        {**_PLAIN, HANDLER: "com.example.Mine"},
        f"option {HANDLER} names a class of Java that kfetch can't run: set the user and the "
        "password themselves, or, for OAUTHBEARER, kfetch.oauth.provider=module:function",
    ),
]


@pytest.mark.parametrize(("options", "message"), [*MISTAKES, *NOT_BUILT])
def test_mistakes(options: dict[str, str], message: str) -> None:
    """Every mistake has one sentence that names the option, and shows no secret."""
    with pytest.raises(OptionError) as caught:
        of(options)

    assert message == caught.value.message
    assert isinstance(caught.value, NotBuilt) == ((options, message) in NOT_BUILT)
    assert "hush" not in repr(caught.value) + str(caught.value)


@given(
    st.builds(
        "{}://{}{}{}".format,
        st.sampled_from(["http", "HTTPS"]),
        st.sampled_from(["h", "a..b", "-", "1.2.3.4"])
        | st.text("0123456789abcdef:.", max_size=12).map("[{}]".format),
        st.just("") | st.integers(0, 99_999).map(":{}".format),
        st.sampled_from(["", "/", "/[x", "?[y]=:1"]),
    )
)
def test_a_url_that_is_accepted_can_be_used(url: str) -> None:
    """Whatever the parser accepts has a host and a port for Python's ``urlsplit``."""
    try:
        of({**NEW_CREDENTIALS, _URL: url})
    except OptionError:
        return
    parts = urlsplit(url)

    assert parts.hostname
    assert parts.port is None or 1 <= parts.port <= 65535


_NAMES = [o.name for o in OPTIONS if o.treatment is Treatment.BUILT and ".sasl." in o.name]
_SECRETS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="'\"\\"),
    min_size=12,
    max_size=24,
).map(lambda text: f"Zq{text}")
_TEXTS = [
    "",
    "x",
    "PLAIN",
    "OAUTHBEARER",
    "SCRAM-SHA-256",
    "GSSAPI",
    "AWS_MSK_IAM",
    "5",
    "https://h",
]
_MODULES = ["PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule", "Krb5LoginModule"]
_IN_JAAS = ["password", "clientSecret", "unsecuredLoginStringClaim_sub", "extension_a", "keyTab"]
_JAAS_FORMS = [
    '{module} required username="u" clientId="c" {name}="{secret}";',
    "{module} required {name}={secret}",
    "{module} required {name} = '{secret}' x;",
    '{module} {name}="{secret}";',
    "{module} required {secret};",
    "{secret}",
    '{module} required {name}="{secret}',
]


@given(
    secret=_SECRETS,
    others=st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_TEXTS), max_size=4),
    secret_option=st.sampled_from(
        [
            "kafka.sasl.password",
            "kfetch.oauth.token",
            "kafka.sasl.oauthbearer.client.credentials.client.secret",
            JAAS,
        ]
    ),
    form=st.sampled_from(_JAAS_FORMS),
    names=st.tuples(st.sampled_from(_MODULES), st.sampled_from(_IN_JAAS)),
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"]),
)
def test_no_secret_is_shown(
    secret: str,
    others: dict[str, str],
    secret_option: str,
    form: str,
    names: tuple[str, str],
    mechanism: str,
) -> None:
    """Neither ``repr`` nor ``str`` of options and errors shows a secret, whatever else is wrong."""
    text = form.format(module=f"a.{names[0]}", name=names[1], secret=secret)
    value = text if secret_option == JAAS else secret
    options = {
        **REQUIRED,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": "u",
        **others,
        secret_option: value,
    }
    if secret_option == JAAS:
        options.pop("kafka.sasl.username")
    try:
        parsed = parse(options)
    except OptionError as error:
        shown = f"{error!r} {error} {error.where} {error.__cause__} {error.__context__}"
    else:
        shown = f"{parsed!r} {parsed} {parsed.network.security!r} {parsed.network.security.sasl}"
        assert parsed == pickle.loads(pickle.dumps(parsed))
    assert secret not in shown
