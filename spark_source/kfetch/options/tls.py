"""TLS: which brokers to trust, and the client's own certificate (``kafka.ssl.*``).

The names, the defaults and the combinations are those of Java's client (KIP-651 for PEM). Files are
read where a connection is opened, because driver and executors may be different machines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kfetch.errors import OptionError
from kfetch.options.converters import one_of
from kfetch.options.option import Option, OptionReader, by_name
from kfetch.options.secret import Secret

PREFIX = "kafka.ssl."
_STORE_TYPE = one_of("JKS", "PKCS12", "PEM")
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLD_VERSIONS = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello")
"""Java accepts these names, and switches the protocols off. So does OpenSSL 3."""

TLS_1_3_SUITES = frozenset(
    {
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""RFC 8446, appendix B.4. OpenSSL uses the same names."""

_TLS_1_2_SUITE = re.compile(
    r"(?:TLS|SSL)_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS|RSA)_WITH_"
    r"(?:AES_(128|256)_(?:(GCM)|CBC)_(SHA|SHA256|SHA384)|CHACHA20_POLY1305_SHA256)"
)
"""Java's suites that OpenSSL 3 has, too. Java has the prefix SSL for the oldest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Certificates, and perhaps a private key: in a file or as PEM text. One of both is set."""

    location: str = ""
    """The path of a file. Its content says whether it is PEM, PKCS12 or JKS."""
    pem: Secret | None = None
    password: Secret | None = None
    """The password of a PKCS12 file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """The settings of TLS. Two connections with equal settings may share a broker's answers."""

    truststore: Store | None = None
    """The certificates to trust. None: the system's."""
    keystore: Store | None = None
    """The client's certificate chain and its private key."""
    key_password: Secret | None = field(default=None)
    """The password of an encrypted PEM key."""
    check_host_name: bool = True
    """Whether the broker's certificate must have the name or IP address of the connection."""
    min_version: str = "TLSv1.2"
    max_version: str = "TLSv1.3"
    ciphers: tuple[str, ...] = ()
    """OpenSSL's names of the suites for TLS 1.2. Empty: Python's defaults."""
    tls_1_3_suites: tuple[str, ...] = ()
    """The suites that a connection of TLS 1.3 may have. Empty: any."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the stores, as the options name them."""
        stores = (self.truststore, self.keystore)
        return tuple(store.location for store in stores if store and store.location)


def _algorithm(text: str) -> bool:
    if text.lower() not in ("https", ""):
        raise ValueError("https, or empty: then host names are not checked")
    return text != ""


def _enabled(text: str) -> tuple[str, ...]:
    names = _names(text)
    usable = tuple(version for version in _VERSIONS if version in names)
    if not usable or not names <= {*_VERSIONS, *_OLD_VERSIONS}:
        raise ValueError("a list of TLSv1.2, TLSv1.3 or both")
    return usable


def _newest(text: str) -> str:
    if text not in (*_VERSIONS, "TLS", "SSL"):
        raise ValueError("TLSv1.2 or TLSv1.3")
    return text if text in _VERSIONS else "TLSv1.3"


def _suites(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns OpenSSL's names of the suites for TLS 1.2, and the suites for TLS 1.3."""
    ciphers, suites = [], []
    for name in (part.strip() for part in text.split(",")):
        if name in TLS_1_3_SUITES:
            suites.append(name)
        elif cipher := openssl_name(name):
            ciphers.append(cipher)
        elif name not in ("", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"):  # Java lists it as a suite
            raise ValueError(
                "a list of names such as TLS_AES_256_GCM_SHA384 or "
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, of suites with AES or ChaCha20; "
                f"{name!r} is none"
            )
    return tuple(ciphers), tuple(suites)


def openssl_name(suite: str) -> str | None:
    """Returns OpenSSL's name of a suite of TLS 1.2, None for any other text."""
    match = _TLS_1_2_SUITE.fullmatch(suite)
    if match is None:
        return None
    exchange, bits, gcm, mac = match.groups()
    cipher = [f"AES{bits}", *([gcm] if gcm else []), mac] if bits else ["CHACHA20", "POLY1305"]
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *cipher])


def _names(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")} - {""}


OPTIONS = by_name(
    Option(
        "kafka.ssl.truststore.location",
        "file of the certificates to trust, PEM or PKCS12; without it: those of the system",
    ),
    Option("kafka.ssl.truststore.password", "password of a PKCS12 truststore; secret", Secret),
    Option(
        "kafka.ssl.truststore.type",
        "`PEM`, `PKCS12` or `JKS`; the file's content decides, and JKS must be converted",
        _STORE_TYPE,
        "JKS",
    ),
    Option(
        "kafka.ssl.truststore.certificates",
        "the certificates to trust as PEM text, with type `PEM`",
    ),
    Option(
        "kafka.ssl.keystore.location",
        "file of the client's certificate chain and key, PEM or PKCS12",
    ),
    Option("kafka.ssl.keystore.password", "password of a PKCS12 keystore; secret", Secret),
    Option("kafka.ssl.keystore.type", "as `kafka.ssl.truststore.type`", _STORE_TYPE, "JKS"),
    Option(
        "kafka.ssl.keystore.certificate.chain",
        "the client's certificate chain as PEM text, with type `PEM`",
    ),
    Option("kafka.ssl.keystore.key", "its private key as PEM text, with type `PEM`; secret"),
    Option("kafka.ssl.key.password", "password of an encrypted PEM key; secret", Secret),
    Option(
        "kafka.ssl.endpoint.identification.algorithm",
        "empty: the broker's certificate may have any host name",
        _algorithm,
        "https",
    ),
    Option(
        "kafka.ssl.enabled.protocols",
        "versions of TLS that may be used",
        _enabled,
        "TLSv1.2,TLSv1.3",
    ),
    Option(
        "kafka.ssl.protocol",
        "the newest version; `TLSv1.2` switches TLS 1.3 off",
        _newest,
        "TLSv1.3",
    ),
    Option(
        "kafka.ssl.cipher.suites",
        "suites by Java's names. kfetch refuses a connection with another suite of TLS 1.3, "
        "because Python can't select these",
        _suites,
        unset=((), ()),
    ),
)
REFUSED = {
    "kafka.ssl.engine.factory.class": "a class of Java could change which brokers are trusted",
}
IGNORED = {
    "kafka.ssl.provider": "kfetch uses OpenSSL",
    "kafka.ssl.keymanager.algorithm": "classes of Java",
    "kafka.ssl.trustmanager.algorithm": "classes of Java",
    "kafka.ssl.secure.random.implementation": "kfetch uses OpenSSL's",
}


def tls_options(read: OptionReader) -> TlsOptions:
    """Returns the settings of ``kafka.ssl.*``.

    Raises OptionError for a value or a combination that Java's client refuses, too.
    """
    min_version, max_version = _versions(read)
    ciphers, suites = read(OPTIONS[PREFIX + "cipher.suites"])
    if ciphers and not suites:
        max_version = "TLSv1.2"
    if suites and not ciphers:
        min_version = "TLSv1.3"
    if min_version > max_version:
        raise OptionError(
            f"option {PREFIX}cipher.suites has no suite for {PREFIX}enabled.protocols="
            f"{_shown(read, 'enabled.protocols')} and {PREFIX}protocol={_shown(read, 'protocol')}",
            action="add one, or remove the option",
            option=PREFIX + "cipher.suites",
        )
    return TlsOptions(
        truststore=_store(read, "truststore", "certificates", _pem_value(read, "truststore")),
        keystore=_store(read, "keystore", "key", _pem_value(read, "keystore")),
        key_password=read(OPTIONS[PREFIX + "key.password"]),
        check_host_name=read(OPTIONS[PREFIX + "endpoint.identification.algorithm"]),
        min_version=min_version,
        max_version=max_version,
        ciphers=ciphers,
        tls_1_3_suites=suites,
    )


def _shown(read: OptionReader, name: str) -> str:
    return read.text(PREFIX + name) or OPTIONS[PREFIX + name].default


def _versions(read: OptionReader) -> tuple[str, str]:
    """Returns the oldest and the newest version of TLS. ``ssl.protocol`` limits the newest one."""
    enabled = read(OPTIONS[PREFIX + "enabled.protocols"])
    newest = read(OPTIONS[PREFIX + "protocol"])
    usable = [version for version in enabled if version <= newest]
    if not usable:
        raise OptionError(
            f"option {PREFIX}protocol is {newest}, but {PREFIX}enabled.protocols has only "
            f"{enabled[0]}",
            action=f"remove {PREFIX}protocol",
            option=PREFIX + "protocol",
        )
    return usable[0], usable[-1]


def _pem_value(read: OptionReader, kind: str) -> Secret | None:
    """Returns the PEM text of the options that hold one, None if none is set."""
    if kind == "truststore":
        text = read.text(PREFIX + "truststore.certificates")
        return Secret(text) if text else None
    key = read.text(PREFIX + "keystore.key")
    chain = read.text(PREFIX + "keystore.certificate.chain")
    if bool(key) != bool(chain):
        missing, given = ("certificate.chain", "key") if key else ("key", "certificate.chain")
        raise OptionError(
            f"option {PREFIX}keystore.{given} is set, but {PREFIX}keystore.{missing} is not",
            action="set both",
            option=f"{PREFIX}keystore.{missing}",
        )
    return Secret(f"{chain}\n{key}") if key else None


def _store(read: OptionReader, kind: str, value: str, pem: Secret | None) -> Store | None:
    """Returns a store, None if no option names one. Refuses what Java's client refuses.

    ``value``: the end of the name of the option that holds ``pem``.
    """
    store = f"{PREFIX}{kind}"
    location = read.text(f"{store}.location")
    password = read(OPTIONS[f"{store}.password"])
    declared = read(OPTIONS[f"{store}.type"])
    if pem and declared != "PEM":
        raise _combination(f"option {store}.{value} needs {store}.type=PEM", f"{store}.type")
    if pem and location:
        problem = f"options {store}.location and {store}.{value} are both set"
        raise _combination(problem, f"{store}.{value}")
    if password is not None and declared == "PEM":
        reason = "" if kind == "truststore" else f"; an encrypted key has {PREFIX}key.password"
        problem = f"option {store}.password can't be set for PEM{reason}"
        raise _combination(problem, f"{store}.password")
    if password is not None and not location:
        problem = f"option {store}.password is set, but {store}.location is not"
        raise _combination(problem, f"{store}.location")
    return Store(location=location, pem=pem, password=password) if pem or location else None


def _combination(problem: str, option: str) -> OptionError:
    return OptionError(problem, action="change one of them", option=option)
