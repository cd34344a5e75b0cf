"""The exchanges of PLAIN and OAUTHBEARER, and what all exchanges have in common."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kfetch.options.sasl import PasswordLogin

Exchange = Generator[bytes, bytes, None]
"""Yields bytes for the broker, and gets the bytes of its answer. It ends when the broker is done.

Raises ExchangeFailed if the broker's answer is wrong."""


class ExchangeFailed(ValueError):
    """The broker's part of an exchange is wrong. The text completes "the log-in failed: …"."""


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
