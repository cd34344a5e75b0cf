"""The cookie that stands for the token, and where a form may come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.web.login import (
    LOGIN_LIFETIME_S,
    Logins,
    cookie_name,
    is_cross_site,
    local_path,
    parse_form,
)
from tests.examples import examples

TOKEN = "0123456789abcdef"
NOW = 1_700_000_000.0
OURS = Logins(TOKEN)


def test_a_cookie_lasts_its_time() -> None:
    """A cookie is valid until its end or until a new token. It does not contain the token."""
    cookie = OURS.cookie(NOW)

    assert OURS.valid(cookie, NOW)
    assert OURS.valid(cookie, NOW + LOGIN_LIFETIME_S - 1)
    assert not OURS.valid(cookie, NOW + LOGIN_LIFETIME_S)
    assert not Logins(TOKEN[::-1]).valid(cookie, NOW)
    assert TOKEN not in cookie
    assert TOKEN not in repr(OURS)


@examples(120)
@given(st.text(), st.text())
def test_no_other_cookie_is_valid(one: str, other: str) -> None:
    """No forged cookie passes or raises, even without a token."""
    made = OURS.cookie(NOW)
    until, _, signature = made.partition(".")
    for cookie in (one, f"{one}.{other}", f"{one}.{signature}", f"{until}.{one}", f"{made}{one}x"):
        assert cookie == made or not OURS.valid(cookie, NOW)
        assert not Logins("").valid(cookie, NOW)
        assert not OURS.matches_token(cookie) or cookie == TOKEN
    assert not Logins("").matches_token("")
    assert not Logins("").valid(Logins("").cookie(NOW), NOW)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:4747", "kfetch_login_4747"),
        ("[::1]:80", "kfetch_login_80"),
        ("kfetch.example", "kfetch_login"),
        ("[::1]", "kfetch_login"),
        ("h:1=x; a", "kfetch_login"),
        ("", "kfetch_login"),
    ],
)
def test_each_port_has_its_cookie(host: str, name: str) -> None:
    """The name has the port: a browser sends a host's cookies to all of its ports."""
    assert name == cookie_name(host)


@pytest.mark.parametrize(
    ("host", "origin", "site", "other"),
    [
        ("127.0.0.1:4747", "http://127.0.0.1:4747", "same-origin", False),
        ("127.0.0.1:4747", "http://127.0.0.1:4747", "", False),
        ("kfetch.example", "https://kfetch.example", "", False),
        ("KFETCH.example", "https://kfetch.EXAMPLE", "", False),
        ("127.0.0.1:8080", "https://kfetch.example", "same-origin", False),  # behind a proxy
        ("127.0.0.1:4747", "", "", False),  # no browser
        ("127.0.0.1:4747", "http://evil.example", "", True),
        ("127.0.0.1:4747", "http://127.0.0.1:8080", "", True),
        ("127.0.0.1:4747", "http://localhost:4747", "", True),
        ("127.0.0.1:4747", "null", "", True),
        ("127.0.0.1:4747", "http://127.0.0.1:4747", "cross-site", True),
        ("127.0.0.1:4747", "http://127.0.0.1:4747", "same-site", True),
        ("127.0.0.1:4747", "", "none", True),
        ("", "http://[", "", True),
        ("x", "http://[", "", True),
        ("", "http://x", "", True),
    ],
)
def test_what_comes_from_another_site(host: str, origin: str, site: str, other: bool) -> None:
    """Either of two headers shows another site. Another port is another site."""
    assert other == is_cross_site(host, origin, site)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"a=1&b=x+y%26", {"a": "1", "b": "x y&"}),
        (b"", {}),
        (b"\xff\xfe", {}),
        (b"&".join(b"a=1" for _ in range(99)), {}),
        (b"{}", {}),
    ],
)
def test_fields_of_a_form(body: bytes, told: dict[str, str]) -> None:
    """A body that is no form has no fields."""
    assert told == parse_form(body)


@pytest.mark.parametrize(
    ("path", "on"),
    [
        ("/", "/"),
        ("/jobs/clicks", "/jobs/clicks"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/jobs/../x", "/"),
        ("/jobs/a\n", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_nowhere_else(path: str, on: str) -> None:
    """After the log-in, only pages of this supervisor are possible targets."""
    assert on == local_path(path)
