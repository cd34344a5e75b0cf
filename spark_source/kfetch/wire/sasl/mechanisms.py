"""The exchanges of PLAIN, OAUTHBEARER and SCRAM, and what all exchanges have in common.

SCRAM (RFC 5802) has SHA-256 and SHA-512 (RFC 7677), as Kafka's brokers speak it. Names and
passwords go unprepared, as UTF-8: Kafka's ``ScramFormatter.normalize`` does no SASLprep, neither
when it stores a password nor when it checks one. Preparing them here would lock out every user
whose password SASLprep changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator, Sequence

from kfetch.options.sasl import PasswordLogin

Exchange = Generator[bytes, bytes, None]
"""Yields bytes for the broker, and gets the bytes of its answer. It ends when the broker is done.

Raises ExchangeFailed if the broker's answer is wrong."""


class ExchangeFailed(ValueError):
    """The broker's part of an exchange is wrong. The text completes "the log-in failed: …"."""


_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MIN = 4096
"""As in Kafka's ScramMechanism. With fewer, a listener finds the password sooner."""
_ITERATIONS_MAX = 1_000_000
"""About a second of this machine's time. Kafka stores at most 16,384 itself."""
_BINDING = base64.b64encode(b"n,,").decode()
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_REASON = re.compile(r"[A-Za-z0-9 ._-]{1,100}")


def plain(login: PasswordLogin) -> Exchange:
    """Returns the exchange of PLAIN (RFC 4616), without an authorization id, as in Kafka."""
    yield b"\0".join([b"", login.user.encode(), login.password.reveal().encode()])


def oauthbearer(token: str, extensions: Sequence[tuple[str, str]] = ()) -> Exchange:
    """Returns the exchange of OAUTHBEARER (RFC 7628) with SASL extensions (KIP-342)."""
    pairs = [f"{name}={value}" for name, value in (("auth", f"Bearer {token}"), *extensions)]
    refusal = yield "\1".join(["n,,", *pairs, "", ""]).encode()
    if refusal:
        # The broker has said why. It ends the log-in with an error after this byte.
        yield b"\1"
        raise ExchangeFailed("the broker refuses the token and then accepts it")


def scram(mechanism: str, login: PasswordLogin) -> Exchange:
    """Returns the exchange of SCRAM.

    Raises ExchangeFailed if the broker does not prove that it knows the password, or if it demands
    too much or too little work.
    """
    digest, nonce = _HASHES[mechanism], secrets.token_urlsafe(24)
    first = f"n={_escaped(login.user)},r={nonce}"
    server_first = _text((yield f"n,,{first}".encode()))
    whole_nonce, salt, iterations = _challenge(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(digest, login.password.reveal().encode(), salt, iterations)
    final = f"c={_BINDING},r={whole_nonce}"
    message = f"{first},{server_first},{final}".encode()
    proof = base64.b64encode(_proof(digest, salted, message)).decode()
    answer = _attributes(_text((yield f"{final},p={proof}".encode())))
    if "e" in answer:
        raise ExchangeFailed(f"the broker says {_shown(answer['e'])}")
    signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    if not hmac.compare_digest(_base64(answer.get("v", "")), signature):
        raise ExchangeFailed("the broker does not prove that it knows the password")


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def _challenge(server_first: str, nonce: str) -> tuple[str, bytes, int]:
    """Returns the whole nonce, the salt and the number of iterations."""
    answer = _attributes(server_first)
    if "e" in answer:
        raise ExchangeFailed(f"the broker says {_shown(answer['e'])}")
    if "m" in answer:
        raise ExchangeFailed("the broker demands an extension of SCRAM that kfetch does not know")
    whole, salt, count = answer.get("r", ""), _base64(answer.get("s", "")), answer.get("i", "")
    if not whole.startswith(nonce) or whole == nonce or _PRINTABLE.fullmatch(whole) is None:
        raise ExchangeFailed("the broker's nonce does not continue that of kfetch")
    # int() itself takes its time for a number of many digits.
    iterations = int(count) if count.isascii() and count.isdecimal() and len(count) < 10 else 0
    if not salt or not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
        raise ExchangeFailed(
            f"the broker demands no salt, or iterations outside of {_ITERATIONS_MIN} to "
            f"{_ITERATIONS_MAX}"
        )
    return whole, salt, iterations


def _proof(digest: str, salted: bytes, message: bytes) -> bytes:
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    return bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


def _attributes(text: str) -> dict[str, str]:
    """Returns the values of ``a=…,b=…``. The first one counts if a name comes twice."""
    pairs = [part.partition("=") for part in reversed(text.split(","))]
    return {name: value for name, equals, value in pairs if equals}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ExchangeFailed("the broker's answer is no text") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _shown(reason: str) -> str:
    """Returns the broker's reason (RFC 5802, section 7), if it has the form of one."""
    return reason if _REASON.fullmatch(reason) else "no reason that can be shown"
