"""Cipher suites: from the names that Java and IANA use to those of OpenSSL."""

from __future__ import annotations

import re

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


def openssl_name(suite: str) -> str | None:
    """Returns OpenSSL's name of a suite of TLS 1.2, None for any other text."""
    match = _TLS_1_2_SUITE.fullmatch(suite)
    if match is None:
        return None
    exchange, bits, gcm, mac = match.groups()
    cipher = [f"AES{bits}", *([gcm] if gcm else []), mac] if bits else ["CHACHA20", "POLY1305"]
    return "-".join([*([] if exchange == "RSA" else exchange.split("_")), *cipher])
