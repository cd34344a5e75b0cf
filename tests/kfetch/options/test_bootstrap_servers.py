"""``kafka.bootstrap.servers``: every address of every kind, and the ones that are ambiguous."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.spark.options import parse

_ports = st.integers(1, 65535)
_names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{1,5}){0,2}", fullmatch=True)
_hosts = _names | st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str)


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """Returns the addresses of a text."""
    return parse({"kafka.bootstrap.servers": text, "subscribe": "t"}).bootstrap


def written(host: str, port: int) -> str:
    """Returns an address as a user writes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@given(st.lists(st.tuples(_hosts, _ports), min_size=1, max_size=5))
def test_any_addresses(addresses: list[tuple[str, int]]) -> None:
    """Names, IPv4 and IPv6 addresses in brackets are read, in their order."""
    assert tuple(addresses) == servers(", ".join(written(*at) for at in addresses))


@given(st.ip_addresses(v=6).map(str), _ports)
def test_bare_ipv6_addresses(host: str, port: int) -> None:
    """Without brackets nobody can say where an IPv6 address ends. The error shows the brackets."""
    with pytest.raises(OptionError) as caught:
        servers(f"{host}:{port}")

    assert caught.value.message == (
        f"option kafka.bootstrap.servers has '{host}:{port}', but an IPv6 address needs brackets: "
        f"write [{host}]:{port}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SASL_SSL://a.example:1", ("a.example", 1)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("[::ffff:10.0.0.1]:1", ("::ffff:10.0.0.1", 1)),
        ("a_b:1", ("a_b", 1)),
    ],
)
def test_unusual_addresses(text: str, expected: tuple[str, int]) -> None:
    """A listener's name in front, a zone, an IPv4 address in IPv6, and an underscore."""
    assert (expected,) == servers(text)
