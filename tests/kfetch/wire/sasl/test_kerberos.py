"""GSSAPI with a stand-in for the library ``gssapi``: the messages, and the errors.

The stand-in has the library's names and order of calls. It proves nothing about Kerberos itself.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.options.sasl import KerberosLogin
from kfetch.wire.sasl.kerberos import gssapi_exchange
from kfetch.wire.sasl.mechanisms import Exchange, ExchangeFailed

LOGIN = KerberosLogin(service_name="kafka", principal="alice@EXAMPLE", keytab="/a.keytab")
KDC_UNREACHABLE = 2529639068


class GSSError(Exception):
    """An error of the stand-in."""

    def __init__(self, text: str, min_code: int = 0) -> None:
        super().__init__(text)
        self.min_code = min_code


class Context:
    """A security context of three steps: a token, the broker's token, and nothing more to say."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.complete = False
        self.received: list[bytes | None] = []

    def step(self, token: bytes | None) -> bytes | None:
        self.received.append(token)
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def unwrap(self, message: bytes) -> Any:
        return SimpleNamespace(message=message.removeprefix(b"wrapped:"))

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped:" + message)


def name(text: str, kind: str) -> tuple[str, str]:
    """A name. The library refuses an empty one."""
    if not text:
        raise GSSError("An invalid name was supplied")
    return text, kind


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in, in the library's place."""
    made: Any = ModuleType("gssapi")
    made.exceptions = SimpleNamespace(GSSError=GSSError)
    made.NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
    made.MechType = SimpleNamespace(kerberos="kerberos")
    made.Name = name
    made.Credentials = lambda **arguments: arguments
    made.contexts = []

    def context(**arguments: Any) -> Context:
        made.contexts.append(Context(**arguments))
        return made.contexts[-1]

    made.SecurityContext = context
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def begun(login: KerberosLogin = LOGIN, seconds: float = 10.0) -> Exchange:
    """An exchange with a broker."""
    return gssapi_exchange(login, "b1.example", time.monotonic() + seconds)


def test_the_messages(library: Any) -> None:
    """A ticket, an empty message after the broker's token, and the choice of no layer."""
    exchange = begun()
    assert b"ticket" == next(exchange)
    assert b"" == exchange.send(b"mutual")
    offer = b"wrapped:" + struct.pack(">I", 7 << 24 | 65536)
    assert b"wrapped:\1\0\0\0" == exchange.send(offer)
    with pytest.raises(StopIteration):
        exchange.send(b"")
    assert [None, b"mutual"] == library.contexts[0].received


@pytest.mark.parametrize(
    ("login", "credentials"),
    [
        (KerberosLogin(service_name="kafka"), None),
        (
            KerberosLogin(service_name="kafka", ticket_cache="/tmp/cc"),
            {"name": None, "usage": "initiate", "store": {"ccache": "/tmp/cc"}},
        ),
        (
            KerberosLogin(service_name="kafka", principal="a@E"),
            {"name": ("a@E", "principal"), "usage": "initiate", "store": None},
        ),
    ],
)
def test_credentials(library: Any, login: KerberosLogin, credentials: Any) -> None:
    """The service of the broker's host, as the user of the ticket cache or of the options."""
    next(begun(login))
    arguments = library.contexts[0].arguments

    assert ("kafka@b1.example", "service") == arguments["name"]
    assert credentials == arguments["creds"]


def test_a_keytab(library: Any) -> None:
    """Tickets by a keytab stay in this process's memory."""
    next(begun())
    store = library.contexts[0].arguments["creds"]["store"]

    assert "/a.keytab" == store["client_keytab"]
    assert store["ccache"].startswith("MEMORY:kfetch-")


@pytest.mark.parametrize("offer", [b"", b"wrapped:\2\0\0\0", b"wrapped:\1", b"wrapped:\1\0\0\0\0"])
def test_a_wrong_offer(library: Any, offer: bytes) -> None:
    """A broker that wants integrity or privacy, or says something else, is refused."""
    exchange = begun()
    next(exchange)
    exchange.send(b"mutual")
    with pytest.raises(ExchangeFailed, match=r"integrity or privacy|too early"):
        exchange.send(offer)


@pytest.mark.parametrize(
    ("min_code", "kind"), [(0, AuthenticationFailed), (KDC_UNREACHABLE, TokenUnavailable)]
)
def test_no_ticket(library: Any, min_code: int, kind: type[Exception]) -> None:
    """A wrong keytab is final. A server of Kerberos that is away may come back."""

    def fail(**_: Any) -> Any:
        raise GSSError("No Kerberos credentials", min_code)

    library.Credentials = fail
    with pytest.raises(kind, match=r"can't log in at kafka/b1\.example: No Kerberos cred"):
        next(begun())


def test_a_server_that_hangs(library: Any) -> None:
    """A question to Kerberos ends at the deadline."""
    release = threading.Event()
    library.Credentials = lambda **_: release.wait(60)
    with pytest.raises(TokenUnavailable, match="a ticket of Kerberos did not come within"):
        next(begun(seconds=0.02))
    release.set()


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(AuthenticationFailed, match="Install gssapi on the driver and the exec"):
        next(begun())
