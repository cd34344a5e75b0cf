"""Explains why TLS fails with a broker: from an exception of ``ssl`` to one sentence.

The exceptions come from the handshake. With TLS 1.3 they come from the first read, too: there the
broker judges the client's certificate after the client's last message (RFC 8446, section 4.4.2.4).
This module has no socket and no clock.
"""

from __future__ import annotations

from kfetch.errors import TlsFailed
from kfetch.options.tls import TlsOptions

# X509_V_ERR_* of OpenSSL's x509_vfy.h.
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21, 27)
"""No issuer, a self-signed certificate, an untrusted one."""
_OTHER_NAME = (62, 64)
_TOO_WEAK = (66, 67, 68)

_CERTIFICATE_ALERTS = {
    "BAD_CERTIFICATE": "bad certificate",
    "UNSUPPORTED_CERTIFICATE": "unsupported certificate",
    "CERTIFICATE_REVOKED": "revoked",
    "CERTIFICATE_EXPIRED": "expired",
    "CERTIFICATE_UNKNOWN": "certificate unknown",
    "UNKNOWN_CA": "unknown authority",
    "ACCESS_DENIED": "access denied",
    "DECRYPT_ERROR": "decrypt error",
    "CERTIFICATE_REQUIRED": "certificate required",
}
"""The alerts of RFC 8446, section 6.2, about a client's certificate."""
_EMPTY_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")
"""A broker's answer to a client without a certificate: OpenSSL's and newer Java's, and older
Java's."""
_NO_VERSION = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_NO_CIPHER = (
    "HANDSHAKE_FAILURE",
    "INSUFFICIENT_SECURITY",
    "NO_SHARED_CIPHER",
    "NO_CIPHERS_AVAILABLE",
)
_WEAK_KEY = ("DH_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")

_SET_KEYSTORE = (
    "Set kafka.ssl.keystore.location, or kafka.ssl.keystore.key and "
    "kafka.ssl.keystore.certificate.chain"
)


def explain(cause: OSError, host: str, port: int, options: TlsOptions) -> TlsFailed | None:
    """Returns the error for an exception of ``ssl``; None if it names no lasting problem."""
    code = getattr(cause, "verify_code", None)
    judge = _of_certificate if code else _of_reason
    found = judge(cause, host, options)
    if found is None:
        return None
    problem, what, action = found
    peer = f"{host}:{port}"
    return TlsFailed(f"{peer} {what}", action=action, peer=peer, problem=problem)


def words(cause: OSError) -> str:
    """Returns the words of an exception, without the source lines of Python's ``ssl``."""
    reason = getattr(cause, "reason", None)
    text = reason.lower().replace("_", " ") if reason else str(cause.strerror or cause)
    return text.rstrip(".")


def may_lack_tls(cause: OSError) -> bool:
    """Returns whether the peer may speak no TLS: it ends the connection, or answers otherwise."""
    reason = getattr(cause, "reason", None) or ""
    return reason in _NO_TLS or isinstance(cause, ConnectionError) or "EOF" in str(cause)


_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_MESSAGE",
)

_Finding = tuple[str, str, str]
"""The problem in two words, what the peer does, and what the user can do."""


def _of_certificate(cause: OSError, host: str, options: TlsOptions) -> _Finding:
    """Returns why the broker's certificate is refused."""
    code = getattr(cause, "verify_code", 0)
    if code == _EXPIRED:
        action = "Renew the broker's certificate, or check the clock of this machine"
        return "expired", "has a certificate that has expired", action
    if code == _NOT_YET_VALID:
        action = "Check the clocks of the broker and of this machine"
        return "not yet valid", "has a certificate that is not valid yet", action
    if code in _OTHER_NAME:
        action = (
            f"Connect by a name that the certificate has, or let it have {host} as a subject "
            "alternative name. An empty kafka.ssl.endpoint.identification.algorithm switches the "
            "check off"
        )
        return "other name", f"has a certificate for other names than {host}", action
    if code in _UNKNOWN_AUTHORITY:
        what = "has a certificate that no trusted authority has signed"
        return "unknown authority", what, _trust(options)
    if code in _TOO_WEAK:
        action = "Give the broker a certificate with a longer key and SHA-256"
        return "weak", "has a certificate that is too weak for OpenSSL", action
    what = f"has a certificate that fails verification: {getattr(cause, 'verify_message', '')}"
    return "certificate", what, "Check the broker's certificate"


def _trust(options: TlsOptions) -> str:
    store, add = options.truststore, "Add the certificate of its authority to kafka.ssl.truststore."
    if store is None:
        return (
            "Give the certificate of its authority in kafka.ssl.truststore.location or "
            "kafka.ssl.truststore.certificates. Without them, kfetch trusts the system's "
            "authorities"
        )
    if store.location:
        return f"{add}location, {store.location}"
    return f"{add}certificates"


def _of_reason(cause: OSError, host: str, options: TlsOptions) -> _Finding | None:
    """Returns why one side refuses the connection, by the name of OpenSSL's reason."""
    reason = (getattr(cause, "reason", None) or "").rpartition("ALERT_")[2]
    if reason in _CERTIFICATE_ALERTS:
        return _of_client_certificate(reason, options)
    if reason in _NO_VERSION:
        return (
            "no common version",
            f"does not speak {_versions(options)}",
            ("Set kafka.ssl.enabled.protocols and kafka.ssl.protocol to versions of the broker"),
        )
    if reason in _NO_CIPHER:
        return _of_cipher(options)
    if reason in _WEAK_KEY:
        return "weak", "uses a key that is too weak for OpenSSL", "Give the broker a longer key"
    if reason.endswith("UNRECOGNIZED_NAME"):
        return (
            "unknown name",
            f"knows no host named {host}",
            ("Connect by a name that the broker's certificate has"),
        )
    return None


def _versions(options: TlsOptions) -> str:
    lowest, highest = options.min_version, options.max_version
    return lowest if lowest == highest else f"{lowest} or {highest}"


def _of_client_certificate(alert: str, options: TlsOptions) -> _Finding | None:
    if options.keystore is None:
        if alert not in _EMPTY_CERTIFICATE:
            return None
        return "client certificate required", "requires a client certificate", _SET_KEYSTORE
    # Java's brokers say "certificate unknown" whatever the reason.
    action = (
        "Renew it"
        if alert == "CERTIFICATE_EXPIRED"
        else "Check that it has not expired, that it is meant for clients, and that the broker's "
        "truststore has its authority"
    )
    what = f"refuses the client certificate of kafka.ssl.keystore: {_CERTIFICATE_ALERTS[alert]}"
    return "client certificate refused", what, action


def _of_cipher(options: TlsOptions) -> _Finding:
    what = f"has no cipher suite for {_versions(options)} in common with kfetch"
    if options.keystore is None:
        what += ", or requires a client certificate"
    action = (
        "Add a suite of the broker to kafka.ssl.cipher.suites"
        if options.ciphers or options.tls_1_3_suites
        else "Check ssl.cipher.suites and ssl.enabled.protocols of the broker"
    )
    return "no common cipher", what, action
