"""The options of schema registries: addresses, log-in, TLS, and which schema the reader has.

The names behind ``schema.registry.`` are those of Confluent's clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kfetch.errors import OptionError
from kfetch.options.converters import duration
from kfetch.options.network import POLL_TIMEOUT
from kfetch.options.option import Option, OptionReader, by_name, field_of
from kfetch.options.secret import Secret, checked_token
from kfetch.options.tls import OPTIONS as TLS_OPTIONS
from kfetch.options.tls import TlsOptions, tls_options
from kfetch.options.urls import check_url

PREFIX = "schema.registry."
_USER_INFO = PREFIX + "basic.auth.user.info"
_TOKEN = PREFIX + "bearer.auth.token"
_TIMEOUT = "kfetch.registry.timeout"
_TLS = PREFIX + "ssl."
_KAFKA_TLS = "kafka.ssl."
_URLS_MAX = 16

OPTIONS = by_name(
    Option(_USER_INFO, "`user:password` for the schema registries; secret", Secret),
    Option(_TOKEN, "a token for them instead; secret", Secret),
    Option(
        _TLS + "*",
        "TLS of the schema registries, with the names, defaults and meanings of `kafka.ssl.*`",
    ),
    Option(
        _TIMEOUT,
        "how long kfetch asks a schema registry again that does not answer; at most half of "
        "`kafkaConsumer.pollTimeoutMs`",
        duration,
        "60s",
    ),
)
"""The options of connections to schema registries, which keys and values share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    """A schema registry, and how to log in there."""

    urls: tuple[str, ...]
    """Addresses of http or https. The later ones are asked if the earlier ones do not answer."""
    user_info: Secret | None = None
    """A user, a colon and a password."""
    token: Secret | None = None
    tls: TlsOptions = field(default_factory=TlsOptions)
    retry_s: float = field_of(OPTIONS[_TIMEOUT])
    """How long a registry that does not answer is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryColumn:
    """Where the schemas of keys or values are, and which one the reader has."""

    registry: RegistryOptions
    subject: str = ""
    """The subject of the reader's schema; empty if options hold that schema."""
    version: int | None = None
    """Its version; None for the latest one."""


def registry_column(
    column: str,
    read: OptionReader,
    topics: tuple[str, ...],
    version: int | None,
    *,
    has_reader: bool,
) -> RegistryColumn | None:
    """Returns where the schemas of a column are; None without the option.

    ``topics``: the topics of the query, if it names them. ``version``: that of the subject, None
    for the latest one. ``has_reader``: whether options hold the reader's schema, so that no subject
    is needed. Raises OptionError.
    """
    urls = read.text(f"{column}Registry")
    subject = read.text(f"{column}Subject")
    for name, given in ((f"{column}Subject", subject), (f"{column}SubjectVersion", version)):
        if given and (has_reader or not urls):
            why = f"without {column}Registry" if not urls else "beside a schema of the reader"
            raise OptionError.about(name, f"has no effect {why}", action="remove it")
    if not urls:
        return None
    if not subject and not has_reader:
        subject = _default_subject(column, topics)
    return RegistryColumn(
        registry=_registry(f"{column}Registry", urls, read), subject=subject, version=version
    )


def check_used(read: OptionReader, *, has_registry: bool) -> None:
    """Raises OptionError for an option of registries that is unknown, or without a registry."""
    known = {PREFIX + name.removeprefix("kafka.").lower() for name in TLS_OPTIONS}
    for name in (*read.names(PREFIX), *read.names(_TIMEOUT)):
        if name.startswith(_TLS) and name not in known:
            raise OptionError.about(
                name,
                "is not known",
                action="the names behind schema.registry.ssl. are those behind kafka.ssl.",
            )
        if not has_registry:
            raise OptionError.about(
                name, "has no effect without valueRegistry or keyRegistry", action="remove it"
            )


def with_registry_names(text: str) -> str:
    """Returns a sentence about TLS with the names that the options of registries have."""
    return text.replace(_KAFKA_TLS, _TLS)


def _default_subject(column: str, topics: tuple[str, ...]) -> str:
    if len(topics) == 1:
        return f"{topics[0]}-{column}"
    raise OptionError(
        f"option {column}Registry needs a schema of the reader, because the query may read many "
        "topics",
        action=f"set {column}Subject, such as orders-{column}, or {column}ReaderSchema for Avro",
        option=f"{column}Subject",
    )


def _registry(option: str, text: str, read: OptionReader) -> RegistryOptions:
    urls = tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
    if not 1 <= len(urls) <= _URLS_MAX:
        raise OptionError.about(
            option,
            f"must have 1 to {_URLS_MAX} URLs",
            action="write them as https://host:8081,https://other:8081",
        )
    for url in urls:
        check_url(url, option, credentials=f"{_USER_INFO} to user:password")
        if "?" in url or "@" in url:  # a password with a slash looks like a path
            raise OptionError.about(option, "must have no query and no @ in its URLs")
    user_info = read.password(_USER_INFO)
    token: Secret | None = read(OPTIONS[_TOKEN])
    _check_log_in(user_info, token)
    return RegistryOptions(
        urls=urls,
        user_info=user_info,
        token=token,
        tls=_tls(read),
        # A task waits for it, and must learn the cause before it counts as stuck.
        retry_s=min(read(OPTIONS[_TIMEOUT]), read(POLL_TIMEOUT) / 2),
    )


def _check_log_in(user_info: Secret | None, token: Secret | None) -> None:
    """Raises OptionError for credentials that can't be right. It does not show them."""
    if user_info and token:
        raise OptionError(
            f"options {_USER_INFO} and {_TOKEN} are both set",
            action="remove one of them",
            option=_TOKEN,
        )
    if user_info and ":" not in user_info.reveal():
        raise OptionError.about(_USER_INFO, "has no colon", action="write user:password")
    if token:
        checked_token(_TOKEN, token)


def _tls(read: OptionReader) -> TlsOptions:
    texts = {_KAFKA_TLS + name[len(_TLS) :]: read.text(name) for name in read.names(_TLS)}
    try:
        return tls_options(OptionReader(texts))
    except OptionError as problem:
        option = with_registry_names(problem.option)
        raise OptionError(
            with_registry_names(problem.what),
            action=with_registry_names(problem.action),
            option=option,
        ) from None
