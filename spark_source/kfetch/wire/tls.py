"""Secures a connected socket with TLS (RFC 8446, RFC 5246), by Python's ``ssl``.

Contexts are cached: certificates are parsed once, and again after a file has changed. Then new
connections use the new ones, and old connections stay as they are.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kfetch.errors import ConnectionLost, OptionError, TlsFailed
from kfetch.options import NetworkOptions
from kfetch.options.secret import Secret
from kfetch.options.tls import PREFIX, Store, TlsOptions
from kfetch.wire import diagnosis, tls_errors
from kfetch.wire.diagnosis import Verdict
from kfetch.wire.stores import read_keystore, read_truststore, unusable

log = logging.getLogger(__name__)

Identify = Callable[[tuple[str, int], NetworkOptions, float], Verdict | None]
"""Returns what listens at an address that does not speak TLS. The last argument: a deadline."""

_CONTEXTS_MAX = 32
_IDENTIFY_AFTER_S = 2.0
"""How long a peer may leave the handshake unanswered before it is identified."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_Stamp = tuple[int, ...] | None


class Contexts:
    """A context for each value of options, made again after its files have changed.

    If a changed file can't be used, new connections keep the last good context, and a warning
    says so: a certificate and its key are two files, and one of them is replaced first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._contexts: dict[TlsOptions, tuple[list[_Stamp], ssl.SSLContext]] = {}

    def __call__(self, options: TlsOptions) -> ssl.SSLContext:
        """Returns the context. Raises OptionError for a store that can't be used."""
        stores = [store for store in (options.truststore, options.keystore) if store]
        with self._lock:
            stamps = [_stamp(store.location) for store in stores]
            known = self._contexts.get(options)
            if known is None or known[0] != stamps:
                known = stamps, self._made(options, known[1] if known else None)
                if len(self._contexts) >= _CONTEXTS_MAX:
                    self._contexts.clear()
                self._contexts[options] = known
            return known[1]

    def _made(self, options: TlsOptions, last: ssl.SSLContext | None) -> ssl.SSLContext:
        try:
            return _new_context(options)
        except OptionError as cause:
            if last is None:
                raise
            log.warning("kfetch: %s (new connections use the last content)", cause.message)
            return last


context_of = Contexts()
"""The contexts of this process."""


def secure(
    stream: socket.socket,
    host: str,
    port: int,
    options: NetworkOptions,
    deadline: float,
    identify: Identify | None,
) -> ssl.SSLSocket:
    """Returns the stream behind TLS, after the handshake. Closes it if the handshake fails.

    ``deadline``: a time of ``time.monotonic``. ``identify``: asked if the peer speaks no TLS.

    Raises OptionError for a store that can't be used, TlsFailed if the two sides can't agree,
    WrongListener if ``identify`` finds something else, ConnectionLost for other failures.
    """
    tls = options.security.tls
    assert tls is not None, "options without TLS"
    # Neither the dot of an absolute name nor the zone of an IPv6 address is in a certificate.
    name = host.rstrip(".").partition("%")[0]
    try:
        secured = context_of(tls).wrap_socket(
            stream, server_hostname=name, do_handshake_on_connect=False
        )
    except OSError as cause:  # the peer is gone before TLS begins
        stream.close()
        raise _lost((host, port), tls_errors.words(cause)) from None
    except BaseException:
        stream.close()
        raise
    try:
        _Handshake(secured, tls, (host, port), options, deadline, identify).run()
    except BaseException:
        secured.close()
        raise
    return secured


@dataclass(frozen=True, slots=True)
class _Handshake:
    """The handshake of one connection."""

    stream: ssl.SSLSocket
    tls: TlsOptions
    address: tuple[str, int]
    options: NetworkOptions
    deadline: float
    identify: Identify | None

    def run(self) -> None:
        began = time.monotonic()
        until = min(self.deadline, began + self.options.connect_timeout_s)
        try:
            # After a time-out, the handshake goes on where it was.
            if not self._done_by(min(until, began + _IDENTIFY_AFTER_S)):
                self._check_listener()
                if not self._done_by(until):
                    raise _lost(self.address, f"no answer within {time.monotonic() - began:.3g} s")
        except OSError as cause:
            raise self._failure(cause) from None
        self._check_suite()

    def _done_by(self, until: float) -> bool:
        self.stream.settimeout(max(0.001, until - time.monotonic()))
        try:
            self.stream.do_handshake()
        except TimeoutError:
            return False
        return True

    def _failure(self, cause: OSError) -> ConnectionLost:
        if failure := tls_errors.explain(cause, *self.address, self.tls):
            return failure
        if tls_errors.may_lack_tls(cause):
            self._check_listener()
        return _lost(self.address, tls_errors.words(cause))

    def _check_listener(self) -> None:
        """Raises WrongListener if the peer is found to speak something else than TLS."""
        if self.identify is None:
            return
        if verdict := self.identify(self.address, self.options, self.deadline):
            raise diagnosis.wrong_listener(verdict, *self.address)

    def _check_suite(self) -> None:
        """Raises TlsFailed for a suite of TLS 1.3 that the options don't have.

        Before Python 3.15, ``ssl`` always offers OpenSSL's suites of TLS 1.3.
        """
        agreed, wanted = self.stream.cipher(), self.tls.tls_1_3_suites
        if agreed and wanted and agreed[1] == "TLSv1.3" and agreed[0] not in wanted:
            peer = f"{self.address[0]}:{self.address[1]}"
            what = f"{peer} chooses {agreed[0]}, which {PREFIX}cipher.suites does not have"
            action = (
                "Python can't select the suites of TLS 1.3. Add this suite, or set "
                f"{PREFIX}enabled.protocols=TLSv1.2"
            )
            raise TlsFailed(what, action=action, peer=peer, problem="no common cipher")


def _lost(address: tuple[str, int], cause: str) -> ConnectionLost:
    peer = f"{address[0]}:{address[1]}"
    return ConnectionLost(
        f"no connection to {peer}: the TLS handshake failed: {cause}",
        action="Check that kafka.bootstrap.servers names a listener with TLS",
        peer=peer,
        cause=cause,
    )


def _stamp(location: str) -> _Stamp:
    """Returns what changes when a file changes; None without a file."""
    if not location:
        return None
    try:
        stat = os.stat(location)
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _new_context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.check_host_name
    # Java trusts each certificate of a truststore, also one that is no root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = _VERSIONS[options.min_version]
    context.maximum_version = _VERSIONS[options.max_version]
    if options.ciphers:
        _set_ciphers(context, options.ciphers)
    if options.truststore is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_truststore(context, options.truststore)
    if options.keystore is not None:
        _load_keystore(context, options.keystore, options.key_password)
    return context


def _set_ciphers(context: ssl.SSLContext, ciphers: tuple[str, ...]) -> None:
    name = PREFIX + "cipher.suites"
    try:
        context.set_ciphers(":".join(ciphers))
    except ssl.SSLError:
        what = f"option {name} has no suite that this machine's {ssl.OPENSSL_VERSION} has"
        raise OptionError(what, option=name) from None


def _load_truststore(context: ssl.SSLContext, store: Store) -> None:
    certificates = read_truststore(store).certificates
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as cause:
        name = PREFIX + ("truststore.location" if store.location else "truststore.certificates")
        raise unusable(store, name, f"is damaged: {tls_errors.words(cause)}") from None


def _load_keystore(context: ssl.SSLContext, store: Store, password: Secret | None) -> None:
    content = read_keystore(store)
    name = PREFIX + ("keystore.location" if store.location else "keystore.key")
    with _readable_once(content.certificates + content.key) as path:
        try:
            context.load_cert_chain(path, password=_KeyPassword(password, name, store))
        except OSError as cause:
            raise unusable(store, name, _key_problem(cause, content.key, password)) from None


class _KeyPassword:
    """Gives OpenSSL the password of an encrypted key. Without one OpenSSL asks on the terminal."""

    def __init__(self, password: Secret | None, name: str, store: Store) -> None:
        self._password, self._name, self._store = password, name, store

    def __call__(self) -> str:
        if self._password is None:
            what = f"has an encrypted key: set {PREFIX}key.password"
            raise unusable(self._store, self._name, what)
        return self._password.reveal()


def _key_problem(cause: OSError, key: str, password: Secret | None) -> str:
    if getattr(cause, "reason", None) == "KEY_VALUES_MISMATCH":
        return "has a private key that does not belong to its first certificate"
    if password is not None and "ENCRYPTED" in key:
        return f"has a key that can't be decrypted with {PREFIX}key.password"
    return f"is damaged: {tls_errors.words(cause)}"


@contextmanager
def _readable_once(text: str) -> Iterator[str]:
    """Gives the text as a file that exists for this block: ``load_cert_chain`` takes only files.

    On Linux the file is memory without a name. Elsewhere it is private to this user.
    """
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        descriptor = os.memfd_create("kfetch", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
        temporary = False
    else:
        descriptor, path = tempfile.mkstemp(prefix="kfetch-")  # mode 0600
        temporary = True
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            yield path
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(path)
