"""Tokens for OAUTHBEARER: a function, a file, a text, and Kafka's tokens without a signature."""

from __future__ import annotations

import base64
import json
import math
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import AuthenticationFailed, KfetchError, TokenUnavailable
from kfetch.options.oauth import StaticToken, TokenFile, TokenProvider, UnsecuredToken
from kfetch.options.secret import Secret
from kfetch.wire.sasl import jwt
from kfetch.wire.sasl.tokens import TOKENS, token

SOURCE = TokenProvider(module="kfetch_test_provider", function="bearer")


def soon() -> float:
    """A deadline."""
    return time.monotonic() + 60


@pytest.fixture(autouse=True)
def no_old_tokens() -> None:
    """Each test fetches for itself."""
    TOKENS.clear()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with a token provider; the test sets its function."""
    made = ModuleType(SOURCE.module)
    monkeypatch.setitem(sys.modules, SOURCE.module, made)
    return made


@pytest.mark.parametrize(
    "result",
    [
        "abc",
        ("abc", time.time() + 900),
        ("abc", int(time.time() + 900) * 1000),
        ("abc", datetime.fromtimestamp(time.time() + 900, UTC)),
        ("abc", time.time() + 900, "principal", {"logicalCluster": "lkc-1"}),
        ("abc", None),
    ],
)
def test_what_a_provider_may_return(provider: Any, result: Any) -> None:
    """A token, and its expiry in seconds, in milliseconds or as a datetime. It is asked once."""
    calls = []
    provider.bearer = lambda: calls.append(1) or result

    assert ["abc", "abc"] == [token(SOURCE, soon()) for _ in range(2)]
    assert 1 == len(calls)


def test_two_providers_do_not_share(provider: Any) -> None:
    """Tokens belong to the settings that they came by."""
    provider.bearer, provider.other = (lambda: "abc"), (lambda: "def")
    other = TokenProvider(module=SOURCE.module, function="other")

    assert ("abc", "def") == (token(SOURCE, soon()), token(other, soon()))


@pytest.mark.parametrize(
    ("result", "kind", "problem"),
    [
        (None, AuthenticationFailed, "returned no token"),
        ("", AuthenticationFailed, "returned no token"),
        ("hush\nhush", AuthenticationFailed, "returned no token"),
        (b"hush", AuthenticationFailed, "returned no token"),
        (("hush", "tomorrow"), AuthenticationFailed, "returned no expiry"),
        (("hush", True), AuthenticationFailed, "returned no expiry"),
        (("hush", 5.0), TokenUnavailable, "returned an expired token"),
    ],
)
def test_wrong_results(provider: Any, result: Any, kind: Any, problem: str) -> None:
    """A wrong result is an error that names the function and not the result."""
    provider.bearer = lambda: result
    with pytest.raises(kind, match=problem) as caught:
        token(SOURCE, soon())

    assert "kfetch_test_provider:bearer" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", [LookupError, SystemExit])
def test_a_provider_that_raises(provider: Any, kind: type[BaseException]) -> None:
    """The error has the class and the line. The text may hold a secret, so it is not shown."""

    def bearer() -> str:
        raise kind("hush")

    provider.bearer = bearer
    with pytest.raises(TokenUnavailable) as caught:
        token(SOURCE, soon())

    assert f"raised {kind.__name__} at " in caught.value.message
    assert "hush" not in repr(caught.value) + str(caught.value)
    assert caught.value.__cause__ is None


def test_a_provider_that_is_not_there(provider: Any) -> None:
    """A module or a function that is missing on this machine is final."""
    with pytest.raises(AuthenticationFailed, match="there is no such function"):
        token(SOURCE, soon())
    with pytest.raises(AuthenticationFailed, match="there is no such module") as caught:
        token(TokenProvider(module="kfetch_no_module", function="x"), soon())

    assert "call sc.addPyFile before the first query on an executor" in caught.value.action


@pytest.mark.parametrize("line", ["1 / 0", "raise SystemExit('hush')"])
def test_a_provider_whose_module_raises(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that can't be imported is final. The error has the line, and no text of it."""
    (tmp_path / "kfetch_broken_module.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AuthenticationFailed, match=r"raised .*_module\.py:1") as caught:
        token(TokenProvider(module="kfetch_broken_module", function="x"), soon())

    assert "hush" not in str(caught.value)


def test_a_file(tmp_path: Path) -> None:
    """A file is read for each log-in, because another program renews it."""
    file = tmp_path / "token"
    source = TokenFile(path=str(file))
    for text in ("abc", "def"):
        file.write_text(text + "\n")
        assert text == token(source, soon())
    file.write_text("not a token")
    with pytest.raises(TokenUnavailable, match="holds no token"):
        token(source, soon())
    file.unlink()
    with pytest.raises(TokenUnavailable, match="can't be read: No such file"):
        token(source, soon())


def test_a_text() -> None:
    """A token of the options goes as it is."""
    assert "abc" == token(StaticToken(token=Secret("abc")), soon())


def test_a_token_without_a_signature() -> None:
    """Its claims are those of Kafka's OAuthBearerUnsecuredLoginCallbackHandler."""
    source = UnsecuredToken(claims=(("sub", "alice"), ("scope", ("a", "b"))), lifetime_s=60)
    header, claims, signature = token(source, soon()).split(".")
    read = json.loads(base64.urlsafe_b64decode(claims + "=="))

    assert ({"alg": "none"}, "") == (json.loads(base64.urlsafe_b64decode(header + "==")), signature)
    assert ("alice", ["a", "b"]) == (read["sub"], read["scope"])
    assert 60 == pytest.approx(read["exp"] - read["iat"])


@given(st.text() | st.builds(lambda part: f"a.{part}.b", st.text()))
def test_any_text_has_an_expiry_or_none(text: str) -> None:
    """Reading a claim raises nothing."""
    moment = jwt.expiry(text)

    assert moment is None or isinstance(moment, float)


@pytest.mark.parametrize(
    "claims",
    ['{"exp":NaN}', '{"exp":1e999}', '{"exp":"x"}', "[]", "{}", "5", '{"exp":' + 9999 * "["],
    ids=range(7),
)
def test_expiries_that_are_none(claims: str) -> None:
    """A claim that is no finite number is no expiry."""
    assert jwt.expiry(f"e30.{base64.urlsafe_b64encode(claims.encode()).decode()}.") is None


def test_errors_are_of_kfetch() -> None:
    """Both errors belong to the tree, and only one says that a retry can't help."""
    assert issubclass(TokenUnavailable, KfetchError)
    assert not issubclass(TokenUnavailable, AuthenticationFailed)


@given(now=st.floats(1e9, 4e9))
def test_a_token_is_never_from_the_future(now: float) -> None:
    """The broker reads ``iat`` rounded to milliseconds. Its clock shows whole milliseconds, cut."""
    text, expires_at = jwt.unsecured(UnsecuredToken(claims=(("sub", "a"),), lifetime_s=60), now)
    body = text.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))

    assert math.floor(1000 * claims["iat"] + 0.5) <= math.floor(1000 * now)
    assert now + 59.998 < claims["exp"] == expires_at
