"""Checks URLs of options, without urllib: importing it loads sockets."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from kfetch.errors import OptionError

_PORT_MAX = 65535
_HTTP = re.compile(
    r"https?://(?P<user>[^/?#@]*@)?(?:[\w.-]+|\[(?P<ip>[0-9a-fA-F:.]+)\])"
    r"(?::(?P<port>\d{1,5}))?(?:[/?][!-~]*|$)",
    re.IGNORECASE | re.ASCII,
)


def check_url(url: str, option: str, *, credentials: str, schemes: str = "http or https") -> None:
    """Raises OptionError for a URL that is not of http or https, or that holds a user.

    ``credentials``: the options that hold user and password. ``schemes``: the words for errors.
    """
    match = _HTTP.fullmatch(url)
    if match is None or not _is_ipv6(match["ip"]):
        raise OptionError.about(
            option, f"is no URL of {schemes}", action="write it as https://host/path"
        )
    if match["user"]:
        raise OptionError.about(
            option, "must not hold a user or password", action=f"set {credentials}"
        )
    if match["port"] and not 1 <= int(match["port"]) <= _PORT_MAX:
        raise OptionError.about(option, "has a port that is none", action=f"use 1 to {_PORT_MAX}")


def _is_ipv6(address: str | None) -> bool:
    """Returns whether this is an IPv6 address, or none is given."""
    try:
        return address is None or bool(IPv6Address(address))
    except ValueError:
        return False
