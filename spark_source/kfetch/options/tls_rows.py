"""The catalogue's rows of TLS: (name, default, meaning) of each option, by its treatment."""

from __future__ import annotations

__all__ = ["BUILT", "IGNORED", "REFUSED"]

Row = tuple[str, str, str]

BUILT: tuple[Row, ...] = (
    (
        "kafka.ssl.truststore.location",
        "none",
        "file of the certificates to trust, PEM or PKCS12; without it: those of the system",
    ),
    ("kafka.ssl.truststore.password", "none", "password of a PKCS12 truststore; secret"),
    (
        "kafka.ssl.truststore.type",
        "JKS",
        "`PEM`, `PKCS12` or `JKS`; the file's content decides, and JKS must be converted",
    ),
    (
        "kafka.ssl.truststore.certificates",
        "none",
        "the certificates to trust as PEM text, with type `PEM`",
    ),
    (
        "kafka.ssl.keystore.location",
        "none",
        "file of the client's certificate chain and key, PEM or PKCS12",
    ),
    ("kafka.ssl.keystore.password", "none", "password of a PKCS12 keystore; secret"),
    ("kafka.ssl.keystore.type", "JKS", "as `kafka.ssl.truststore.type`"),
    (
        "kafka.ssl.keystore.certificate.chain",
        "none",
        "the client's certificate chain as PEM text, with type `PEM`",
    ),
    ("kafka.ssl.keystore.key", "none", "its private key as PEM text, with type `PEM`; secret"),
    ("kafka.ssl.key.password", "none", "password of an encrypted PEM key; secret"),
    (
        "kafka.ssl.endpoint.identification.algorithm",
        "https",
        "empty: the broker's certificate may have any host name",
    ),
    ("kafka.ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "versions of TLS that may be used"),
    ("kafka.ssl.protocol", "TLSv1.3", "the newest version; `TLSv1.2` switches TLS 1.3 off"),
    (
        "kafka.ssl.cipher.suites",
        "none",
        "suites by Java's names. kfetch refuses a connection with another suite of TLS 1.3, "
        "because Python can't select these",
    ),
)
REFUSED: tuple[Row, ...] = (
    (
        "kafka.ssl.engine.factory.class",
        "none",
        "a class of Java could change which brokers are trusted",
    ),
)
IGNORED: tuple[Row, ...] = (
    ("kafka.ssl.provider", "none", "kfetch uses OpenSSL"),
    ("kafka.ssl.keymanager.algorithm", "none", "classes of Java"),
    ("kafka.ssl.trustmanager.algorithm", "none", "classes of Java"),
    ("kafka.ssl.secure.random.implementation", "none", "kfetch uses OpenSSL's"),
)
