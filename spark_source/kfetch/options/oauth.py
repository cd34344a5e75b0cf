"""OAUTHBEARER: where a token comes from, and the extensions that go with it (KIP-255, KIP-768)."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.converters import boolean, pause, seconds
from kfetch.options.jaas import JAAS_CONFIG, LoginModule
from kfetch.options.option import Option, OptionReader, by_name, field_of
from kfetch.options.secret import Secret, checked_token
from kfetch.options.tls import PREFIX, TlsOptions, tls_options
from kfetch.options.urls import check_url

_PREFIX = "kafka.sasl.oauthbearer."
_URL = _PREFIX + "token.endpoint.url"
_CLIENT_ID = _PREFIX + "client.credentials.client.id"
_CLIENT_SECRET = _PREFIX + "client.credentials.client.secret"
_RETRIEVER = _PREFIX + "jwt.retriever.class"
_HANDLER = "kafka.sasl.login.callback.handler.class"
_PROVIDER = "kfetch.oauth.provider"
_TOKEN = "kfetch.oauth.token"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticToken:
    """A token as text. Nothing renews it."""

    token: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file with a token. Another program renews it, as Kubernetes does for service accounts."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProvider:
    """A Python function without arguments: it returns a token and when it expires."""

    module: str
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredToken:
    """A token without a signature, for tests. Kafka's default validator accepts it."""

    claims: tuple[tuple[str, object], ...] = field(repr=False)
    lifetime_s: float = 3600.0


def _function(text: str) -> TokenProvider:
    module, colon, function = text.partition(":")
    names = [*module.split("."), function]
    if not colon or not all(name.isidentifier() for name in names):
        raise ValueError("the name of a Python function, written as module:function")
    return TokenProvider(module=module, function=function)


OPTIONS = by_name(
    Option(
        _HANDLER,
        "`…OAuthBearerLoginCallbackHandler`; kfetch does its work itself",
    ),
    Option(
        _URL,
        "where OAUTHBEARER gets tokens: `https://…` of an OIDC provider, or `file:///…`",
    ),
    Option(_CLIENT_ID, "`clientId` in JAAS, too"),
    Option(
        _CLIENT_SECRET,
        "`clientSecret` in JAAS, too; secret",
        Secret,
    ),
    Option("kafka.sasl.oauthbearer.scope", "`scope` in JAAS, too"),
    Option(
        "kafka.sasl.oauthbearer.header.urlencode",
        "URL-encode id and secret in the header, as RFC 6749 wants it",
        boolean,
        "false",
    ),
    Option(
        _RETRIEVER,
        "Kafka's class for client credentials or files; kfetch does its work itself",
    ),
    Option(
        "kafka.sasl.login.connect.timeout.ms",
        "the longest time of connecting to the token endpoint",
        seconds,
        "10000",
    ),
    Option("kafka.sasl.login.read.timeout.ms", "the longest time of its answer", seconds, "10000"),
    Option("kafka.sasl.login.retry.backoff.ms", "first pause before asking it again", pause, "100"),
    Option(
        "kafka.sasl.login.retry.backoff.max.ms",
        "longest pause before asking it again",
        pause,
        "10000",
    ),
)
KFETCH_OPTIONS = by_name(
    Option(_TOKEN, "a token for OAUTHBEARER; secret, and nothing renews it", Secret),
    Option(
        _PROVIDER,
        "`module:function`: a Python function that returns a token and its expiry",
        _function,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """OIDC client credentials (RFC 6749, section 4.4). Times in seconds."""

    url: str = field(repr=False)
    """The token endpoint. Its query may hold secrets."""
    client_id: str
    client_secret: Secret
    scope: str = ""
    urlencode: bool = field_of(OPTIONS[_PREFIX + "header.urlencode"])
    """Whether id and secret are encoded in the header (RFC 6749, section 2.3.1)."""
    tls: TlsOptions = field(default_factory=TlsOptions)
    """For an endpoint with https."""
    connect_timeout_s: float = field_of(OPTIONS["kafka.sasl.login.connect.timeout.ms"])
    read_timeout_s: float = field_of(OPTIONS["kafka.sasl.login.read.timeout.ms"])
    backoff_s: float = field_of(OPTIONS["kafka.sasl.login.retry.backoff.ms"])
    backoff_max_s: float = field_of(OPTIONS["kafka.sasl.login.retry.backoff.max.ms"])


TokenSource = StaticToken | TokenFile | TokenProvider | UnsecuredToken | ClientCredentials


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthLogin:
    """The settings of a log-in by OAUTHBEARER."""

    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """SASL extensions, such as Confluent Cloud's logicalCluster and identityPoolId."""

    @property
    def user(self) -> str:
        """The principal that the options name; empty if only the token names one."""
        if isinstance(self.source, UnsecuredToken):
            return str(dict(self.source.claims).get("sub", ""))
        return ""


def oauth_login(read: OptionReader, module: LoginModule) -> OauthLogin:
    """Returns where the token comes from. ``module``: OAuthBearerLoginModule with its options."""
    _check_classes(read)
    url = read.text(_URL)
    if url and not _FILE_FORM.fullmatch(url):
        credentials = f"{_CLIENT_ID} and {_CLIENT_SECRET}"
        check_url(url, _URL, credentials=credentials, schemes="http, https or file")
    sources: dict[str, TokenSource] = {}
    if url.lower().startswith("file:"):
        sources[_URL] = TokenFile(path="/" + url[5:].lstrip("/"))
    elif url:
        sources[_URL] = _client_credentials(read, module, url)
    if token := read(KFETCH_OPTIONS[_TOKEN]):
        sources[_TOKEN] = StaticToken(token=checked_token(_TOKEN, token))
    if provider := read(KFETCH_OPTIONS[_PROVIDER]):
        sources[_PROVIDER] = provider
    if any(name.startswith("unsecuredLogin") for name in module.options):
        sources[f"unsecuredLogin… in {JAAS_CONFIG}"] = _unsecured(module)
    if len(sources) != 1:
        raise _ambiguous([*sources])
    return OauthLogin(source=next(iter(sources.values())), extensions=_extensions(module))


def _ambiguous(names: list[str]) -> OptionError:
    what = (
        f"options {' and '.join(names)} each name a source of tokens"
        if names
        else "option kafka.sasl.mechanism is OAUTHBEARER, but no option names a source of tokens"
    )
    return OptionError(
        what,
        action=f"Set one of {_URL} (with clientId and clientSecret), {_PROVIDER} (module:function) "
        f"and {_TOKEN}",
        option="kafka.sasl.mechanism",
    )


_HANDLERS = {"OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"}
_RETRIEVERS = {"DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"}


def _check_classes(read: OptionReader) -> None:
    """Raises NotBuilt for a class of Java whose work kfetch does not know."""
    for option, known in ((_HANDLER, _HANDLERS), (_RETRIEVER, _RETRIEVERS)):
        name = read.text(option).rpartition(".")[2]
        # With a provider, the function does the work of the class.
        if name and name not in known and not read.text(_PROVIDER):
            raise NotBuilt.about(
                option,
                "names a class of Java that kfetch does not know",
                action=f"set {_PROVIDER}=module:function, a Python function that returns a token",
            )


_FILE_FORM = re.compile(r"file:(?://)?/[!-~]*", re.IGNORECASE | re.ASCII)


def _client_credentials(read: OptionReader, module: LoginModule, url: str) -> ClientCredentials:
    # As in Kafka 4.1 and later (KIP-1139), an option comes before its older name in JAAS.
    client_id = read.text(_CLIENT_ID) or module.text("clientId")
    secret: Secret | None = read(OPTIONS[_CLIENT_SECRET]) or module.options.get("clientSecret")
    if not client_id or secret is None or not secret.reveal():
        missing = "client secret" if client_id else "client id"
        raise OptionError.about(
            _URL,
            f"needs a {missing}",
            action=f"set {_CLIENT_ID} and {_CLIENT_SECRET}, or clientId and clientSecret in "
            f"{JAAS_CONFIG}",
        )
    return read.group(
        ClientCredentials,
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=read.text(_PREFIX + "scope") or module.text("scope"),
        tls=_tls(module),
    )


def _tls(module: LoginModule) -> TlsOptions:
    """Returns the endpoint's TLS, from ``ssl.*`` in JAAS as in Java (KIP-768).

    The options ``kafka.ssl.*`` are for brokers alone.
    """
    texts = {
        f"kafka.{name.lower()}": text.reveal()
        for name, text in module.options.items()
        if name.lower().startswith("ssl.")
    }
    if f"{PREFIX}truststore.certificates" in texts:
        texts.setdefault(f"{PREFIX}truststore.type", "PEM")
    try:
        return tls_options(OptionReader(texts))
    except OptionError as problem:
        # A value within JAAS may be a secret that a forgotten quotation mark has moved.
        name = problem.option.removeprefix("kafka.")
        raise OptionError(
            f"{name} in option {JAAS_CONFIG} is wrong, or does not fit the other ssl.* there",
            action="docs/how-to/tls.md has the values of kafka.ssl.*, which are valid there",
            option=JAAS_CONFIG,
        ) from None


# Kafka's OAuthBearerUnsecuredLoginCallbackHandler.
_RESERVED = frozenset({"iat", "exp"})


def _unsecured(module: LoginModule) -> UnsecuredToken:
    claims: dict[str, object] = {}
    for name in module.options:
        kind, _, claim = name.partition("_")
        text = module.text(name)
        if kind == "unsecuredLoginStringClaim":
            claims[claim] = text
        elif kind == "unsecuredLoginNumberClaim":
            claims[claim] = _number(text)
        elif kind == "unsecuredLoginListClaim":
            claims[claim] = tuple(text[1:].split(text[0])) if text else ()
    principal = module.text("unsecuredLoginPrincipalClaimName") or "sub"
    if not claims.get(principal) or _RESERVED & claims.keys():
        raise OptionError(
            f"the unsecured token in option {JAAS_CONFIG} needs its principal, and may set neither "
            "iat nor exp",
            action=f'set unsecuredLoginStringClaim_{principal}="…"',
            option=JAAS_CONFIG,
        )
    lifetime_s = _number(module.text("unsecuredLoginLifetimeSeconds") or "3600")
    if lifetime_s <= 0:
        raise OptionError(
            f"unsecuredLoginLifetimeSeconds in option {JAAS_CONFIG} is not larger than 0",
            option=JAAS_CONFIG,
        )
    return UnsecuredToken(claims=tuple(claims.items()), lifetime_s=lifetime_s)


def _number(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(number := float(text)):  # JSON has neither NaN nor Infinity
            return number
    raise OptionError(
        f"a number of the unsecured token in option {JAAS_CONFIG} is none", option=JAAS_CONFIG
    )


_EXTENSION = re.compile(r"(extension|unsecuredLoginExtension)_(.*)", re.DOTALL)
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


def _extensions(module: LoginModule) -> tuple[tuple[str, str], ...]:
    """Returns the SASL extensions (RFC 7628, section 3.1)."""
    found = {
        m[2]: module.text(name) for name in module.options if (m := _EXTENSION.fullmatch(name))
    }
    for name, value in found.items():
        if _EXTENSION_NAME.fullmatch(name) is None or name.lower() == "auth":
            raise OptionError(
                f"an extension_… in option {JAAS_CONFIG} has a name that SASL forbids",
                action="use letters alone, and another name than auth",
                option=JAAS_CONFIG,
            )
        if _EXTENSION_VALUE.fullmatch(value) is None:
            raise OptionError(
                f"extension_{name} in option {JAAS_CONFIG} is empty or has a forbidden character",
                option=JAAS_CONFIG,
            )
    return tuple(found.items())
