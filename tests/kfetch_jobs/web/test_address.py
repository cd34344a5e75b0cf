"""Addresses to listen on, and requests that are refused."""

from __future__ import annotations

import re

import pytest

from kfetch_jobs.errors import ConfigError
from kfetch_jobs.web.address import Address, refusal
from kfetch_jobs.web.login import Logins

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "token", "sentence"),
    [
        ("4747", "", "--listen 4747: must be HOST:PORT, as in 127.0.0.1:4747, or none"),
        ("a:b", "", "must be HOST:PORT"),
        ("h:70000", "", "must be HOST:PORT"),
        ("u@127.0.0.1:1", "", "must be HOST:PORT"),
        ("127.0.0.1:1/x", "", "must be HOST:PORT"),
        ("[::1:1", "", "must be HOST:PORT"),
        (":4747", "", "must be HOST:PORT"),
        ("0.0.0.0:1", "", "needs a token: set the environment variable KFETCH_TOKEN"),
        ("[::]:1", "", "needs a token"),
        ("example.org:1", "", "needs a token"),
        ("127.0.0.1:1", "short", "KFETCH_TOKEN must have at least 16 characters"),
        ("127.0.0.1:1", "äääääääääääääääää", "all ASCII"),
    ],
)
def test_addresses_that_cannot_be(text: str, token: str, sentence: str) -> None:
    """Each mistake has its own sentence. None shows the token."""
    with pytest.raises(ConfigError, match=re.escape(sentence)) as error:
        Address.parse(text, token)
    assert not token or token not in str(error.value)


@pytest.mark.parametrize(
    ("text", "token"),
    [("127.0.0.1:0", ""), ("localhost:80", ""), ("[::1]:80", ""), ("0.0.0.0:80", TOKEN)],
)
def test_addresses_that_can_be(text: str, token: str) -> None:
    """An address prints as the user wrote it."""
    assert text == str(Address.parse(text, token))


COOKIE = Logins(TOKEN).cookie(1000.0)


@pytest.mark.parametrize(
    ("token", "host", "authorization", "cookie", "status"),
    [
        ("", "127.0.0.1:4747", "", "", None),
        ("", "localhost", "", "", None),
        ("", "[::1]:4747", "", "", None),
        ("", "evil.example:4747", "", "", 421),
        ("", "127.0.0.1.evil.example", "", "", 421),
        ("", "", "", "", 421),
        ("", "[", "", "", 421),
        ("", "evil.example", "", COOKIE, 421),
        (TOKEN, "anything", f"Bearer {TOKEN}", "", None),
        (TOKEN, "anything", f"bearer  {TOKEN}", "", None),
        (TOKEN, "anything", "", COOKIE, None),
        (TOKEN, "127.0.0.1", "", "", 401),
        (TOKEN, "127.0.0.1", f"Bearer {TOKEN}0", "", 401),
        (TOKEN, "127.0.0.1", f"Basic {TOKEN}", "", 401),
        (TOKEN, "127.0.0.1", "Bearer ä", "", 401),
        (TOKEN, "127.0.0.1", "", TOKEN, 401),
    ],
)
def test_who_may_ask(
    token: str, host: str, authorization: str, cookie: str, status: int | None
) -> None:
    """Without a token under a name of this machine, with one for it or its cookie alone."""
    told = refusal(Logins(token), 1000.0, host=host, authorization=authorization, cookie=cookie)

    assert status == (told and told[0])
