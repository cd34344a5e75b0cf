"""GSSAPI: Kerberos by the library ``gssapi``, if it is installed (RFC 4752).

Kafka's listeners offer neither integrity nor privacy by SASL, so kfetch asks for none.
"""

from __future__ import annotations

import struct
from typing import Any

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.options.sasl import KerberosLogin
from kfetch.wire.sasl.mechanisms import Exchange, ExchangeFailed
from kfetch.wire.sasl.shared import within

_NO_LAYER = 1
_TICKET = "a ticket of Kerberos"
_KDC_SILENT = frozenset({-1765328228, 2529639068})
"""KRB5_KDC_UNREACH, signed and unsigned."""


def gssapi_exchange(login: KerberosLogin, host: str, deadline: float) -> Exchange:
    """Returns the exchange of GSSAPI. ``deadline``: of every question to Kerberos's servers.

    Raises AuthenticationFailed without a ticket, TokenUnavailable if Kerberos does not answer.
    """
    gssapi = _library()

    def step(token: bytes | None) -> bytes:
        answer: bytes | None = within(_TICKET, lambda: context.step(token), deadline)
        return answer or b""

    try:
        context = within(_TICKET, lambda: _context(gssapi, login, host), deadline)
        answer = yield step(None)
        while not context.complete:
            answer = yield step(answer)
            if context.complete and not answer:
                raise ExchangeFailed("the broker ends the exchange of GSSAPI too early")
        offer = context.unwrap(answer).message
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise ExchangeFailed("the broker demands integrity or privacy by SASL")
        # No layer, hence no size of messages, and no other user than the ticket's.
        yield context.wrap(struct.pack(">I", _NO_LAYER << 24), False).message
    except gssapi.exceptions.GSSError as cause:
        raise _no_ticket(cause, f"{login.service_name}/{host}") from None


def _no_ticket(cause: Any, service: str) -> AuthenticationFailed | TokenUnavailable:
    text = " ".join(str(getattr(cause, "gen_message", lambda: cause)()).split())[:300]
    sentence = f"Kerberos can't log in at {service}: {text}"
    if getattr(cause, "min_code", 0) in _KDC_SILENT:
        return TokenUnavailable(sentence)
    return AuthenticationFailed(
        sentence,
        action="Check the keytab or the ticket cache, the principal and krb5.conf",
        retriable=False,
    )


def _library() -> Any:
    try:
        import gssapi
    except (ImportError, OSError):  # OSError: the library finds no Kerberos on this system
        raise AuthenticationFailed(
            "GSSAPI needs the Python library gssapi and Kerberos, which are not installed here",
            action="Install gssapi on the driver and the executors, or set kafka.sasl.mechanism",
            retriable=False,
        ) from None
    return gssapi


def _context(gssapi: Any, login: KerberosLogin, host: str) -> Any:
    target = gssapi.Name(f"{login.service_name}@{host}", gssapi.NameType.hostbased_service)
    return gssapi.SecurityContext(
        name=target,
        creds=_credentials(gssapi, login),
        mech=gssapi.MechType.kerberos,
        usage="initiate",
    )


def _credentials(gssapi: Any, login: KerberosLogin) -> Any:
    """Returns the credentials of the options; None for those of the default ticket cache."""
    name = None
    if login.principal:  # the library refuses an empty name
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    store = {}
    if login.keytab:
        # Tickets by a keytab stay in this process, and each user has a cache of its own.
        cache = f"MEMORY:kfetch-{abs(hash(login))}"
        store = {"client_keytab": login.keytab, "ccache": cache}
    elif login.ticket_cache:
        store = {"ccache": login.ticket_cache}
    if not store and name is None:
        return None
    return gssapi.Credentials(name=name, usage="initiate", store=store or None)
