"""Sentences for each of OpenSSL's reasons, also for reasons that no test server gives."""

from __future__ import annotations

import ssl
from dataclasses import replace

import pytest

from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire.tls_errors import explain, may_lack_tls, words

PLAIN = TlsOptions()
MUTUAL = TlsOptions(keystore=Store(pem=Secret("k")))
ONE_CIPHER = TlsOptions(ciphers=("AES128-SHA",), max_version="TLSv1.2")


def alert(reason: str) -> OSError:
    """Returns an exception of ``ssl`` with OpenSSL's name of a reason."""
    error = ssl.SSLError(1, f"[SSL: {reason}] (_ssl.c:1)")
    error.reason = reason
    return error


def unverified(code: int) -> OSError:
    """Returns an exception of ``ssl`` about a broker's certificate."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "its message"
    return error


REASONS: list[tuple[OSError, TlsOptions, str, str]] = [
    (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), PLAIN, "client certificate required", "requires"),
    (alert("SSLV3_ALERT_BAD_CERTIFICATE"), PLAIN, "client certificate required", "requires"),
    (alert("SSLV3_ALERT_BAD_CERTIFICATE"), MUTUAL, "client certificate refused", ": bad"),
    (alert("TLSV1_ALERT_UNKNOWN_CA"), MUTUAL, "client certificate refused", ": unknown authority"),
    (alert("SSLV3_ALERT_CERTIFICATE_UNKNOWN"), MUTUAL, "client certificate refused", "unknown"),
    (alert("SSLV3_ALERT_CERTIFICATE_REVOKED"), MUTUAL, "client certificate refused", ": revoked"),
    (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), MUTUAL, "client certificate refused", "Renew it"),
    (alert("TLSV1_ALERT_ACCESS_DENIED"), MUTUAL, "client certificate refused", "access denied"),
    (alert("SSLV3_ALERT_HANDSHAKE_FAILURE"), PLAIN, "no common cipher", ", or requires a client"),
    (alert("SSLV3_ALERT_HANDSHAKE_FAILURE"), MUTUAL, "no common cipher", "with kfetch. Check ssl"),
    (alert("NO_CIPHERS_AVAILABLE"), ONE_CIPHER, "no common cipher", "Add a suite of the broker"),
    (alert("TLSV1_ALERT_PROTOCOL_VERSION"), PLAIN, "no common version", "TLSv1.2 or TLSv1.3. Set"),
    (alert("UNSUPPORTED_PROTOCOL"), ONE_CIPHER, "no common version", "speak TLSv1.2. Set"),
    (alert("DH_KEY_TOO_SMALL"), PLAIN, "weak", "uses a key that is too weak for OpenSSL"),
    (alert("TLSV1_UNRECOGNIZED_NAME"), PLAIN, "unknown name", "knows no host named h"),
    (unverified(18), PLAIN, "unknown authority", "no trusted authority has signed"),
    (unverified(64), PLAIN, "other name", "for other names than h"),
    (unverified(66), PLAIN, "weak", "too weak for OpenSSL"),
    (unverified(23), PLAIN, "certificate", "fails verification: its message. Check"),
]


@pytest.mark.parametrize(("cause", "options", "problem", "part"), REASONS)
def test_reasons(cause: OSError, options: TlsOptions, problem: str, part: str) -> None:
    """Each reason has its problem, and its sentence begins with the broker's address."""
    error = explain(cause, "h", 9093, options)

    assert error is not None
    assert (problem, "h:9093") == (error.problem, error.peer)
    assert error.message.startswith("h:9093 ")
    assert part in error.message


def test_the_truststore_to_change_is_named() -> None:
    """The sentence about an unknown authority names the file that lacks it."""
    options = replace(PLAIN, truststore=Store(location="/ca.pem"))
    error = explain(unverified(20), "h", 1, options)

    assert error is not None
    assert error.message.endswith("to kafka.ssl.truststore.location, /ca.pem")


@pytest.mark.parametrize(
    "cause",
    [
        alert("TLSV1_ALERT_INTERNAL_ERROR"),
        alert("TLSV1_ALERT_UNKNOWN_CA"),  # without a client certificate it means something else
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
    ],
)
def test_temporary_faults_are_not_explained(cause: OSError) -> None:
    """A fault that may pass counts as an ordinary lost connection, which kfetch retries."""
    assert explain(cause, "h", 1, PLAIN) is None


@pytest.mark.parametrize(
    ("cause", "lacks"),
    [
        (alert("WRONG_VERSION_NUMBER"), True),
        (alert("UNEXPECTED_EOF_WHILE_READING"), True),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:1006)"), True),
        (ConnectionResetError(104, "Connection reset by peer"), True),
        (alert("TLSV1_ALERT_INTERNAL_ERROR"), False),
        (TimeoutError("timed out"), False),
    ],
)
def test_peers_without_tls(cause: OSError, lacks: bool) -> None:
    """A peer that closes or answers otherwise is probed. One that sends alerts speaks TLS."""
    assert lacks == may_lack_tls(cause)


def test_words_have_no_source_lines() -> None:
    """The words of an exception do not name lines of Python's sources."""
    assert "internal error" == words(alert("INTERNAL_ERROR"))
    assert "Connection reset by peer" == words(
        ConnectionResetError(104, "Connection reset by peer")
    )
    assert "timed out" == words(TimeoutError("timed out"))


def test_words_end_without_a_full_stop() -> None:
    """A sentence follows them, and Python ends some of its own with a full stop."""
    cause = ssl.SSLError("x")
    cause.reason = "Closed before TLS handshake with data in recv buffer."

    assert "closed before tls handshake with data in recv buffer" == words(cause)
