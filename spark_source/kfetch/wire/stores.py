"""Reads key stores and trust stores: PEM as a file or as text, and PKCS12. The result is PEM.

Java's older JKS files are refused with the command that converts them: no Python library for them
is kept up. Errors name the option and the path, and never the content.
"""

from __future__ import annotations

import re
import shlex
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kfetch.errors import OptionError
from kfetch.options.tls import PREFIX, Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_STORE_BYTES_MAX = 16 << 20
"""A system's whole bundle of authorities has less than 1 MiB."""
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and of JCEKS."""
_PKCS12 = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x80|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL
)
"""A sequence whose first element is version 3 (RFC 7292, section 4)."""
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([\x00-\x7f]*?)-----END \1-----")


@dataclass(frozen=True, slots=True)
class Content:
    """What a store holds, as PEM. The client's own certificate comes first."""

    certificates: str
    key: str = field(default="", repr=False)


def read_truststore(store: Store) -> Content:
    """Returns the certificates to trust. Raises OptionError."""
    name = PREFIX + ("truststore.certificates" if store.pem else "truststore.location")
    return _read(store, "truststore", name)


def read_keystore(store: Store) -> Content:
    """Returns the client's certificate chain and its private key. Raises OptionError."""
    name = PREFIX + ("keystore.key" if store.pem else "keystore.location")
    content = _read(store, "keystore", name)
    if not content.key:
        raise unusable(store, name, "has no private key")
    return content


def _read(store: Store, kind: str, name: str) -> Content:
    if store.pem is not None:
        content = _of_pem(store.pem.reveal())
    else:
        data = _file(store, name)
        if data.startswith(_JKS):
            raise _jks(store, name)
        content = _of_pkcs12(data, store, kind) if _PKCS12.match(data) else _of_text(data)
    if not content.certificates:
        raise unusable(store, name, "has no certificate", "Give it as PEM or PKCS12")
    return content


def _file(store: Store, name: str) -> bytes:
    try:
        with Path(store.location).open("rb") as file:
            return file.read(_STORE_BYTES_MAX)
    except (OSError, ValueError) as cause:  # ValueError: a path with a zero byte
        reason = getattr(cause, "strerror", None) or cause
        what = f"can't be read on {socket.gethostname()}: {reason}"
        action = "The driver and each executor need the file at this path"
        raise unusable(store, name, what, action) from None


def _of_text(data: bytes) -> Content:
    return _of_pem(data.decode("ascii", "replace"))


def _of_pem(text: str) -> Content:
    """Returns the blocks of a PEM text. A text in one line has spaces for line ends (KIP-651)."""
    certificates, keys = [], []
    for label, body in _BLOCK.findall(text):
        if label in ("CERTIFICATE", "X509 CERTIFICATE"):
            certificates.append(_block("CERTIFICATE", body))
        elif label.endswith("PRIVATE KEY"):
            keys.append(_block(label, body))
    return Content("".join(certificates), "".join(keys[:1]))


def _block(label: str, body: str) -> str:
    if ":" not in body:  # headers of an old encrypted key need their own lines
        text = "".join(body.split())
        body = "\n".join(["", *(text[at : at + 64] for at in range(0, len(text), 64)), ""])
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"


def _of_pkcs12(data: bytes, store: Store, kind: str) -> Content:
    parsed = _parsed_pkcs12(data, store, kind)
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    own = [parsed.cert] if parsed.cert else []
    certificates = [
        each.certificate.public_bytes(Encoding.PEM).decode()
        for each in (*own, *parsed.additional_certs)
    ]
    key = b""
    if kind == "keystore" and parsed.key is not None:
        key = parsed.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Content("".join(certificates), key.decode())


def _parsed_pkcs12(data: bytes, store: Store, kind: str) -> PKCS12KeyAndCertificates:
    name = f"{PREFIX}{kind}.location"
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        what = "is a PKCS12 file, and the library that reads it is missing"
        action = "pip install 'kfetch[pkcs12]', or convert the file to PEM"
        raise unusable(store, name, what, action) from None
    password = store.password.reveal().encode() if store.password else None
    try:
        return load_pkcs12(data, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as cause:
        option = f"{PREFIX}{kind}.password"
        what, action = f"can't be decrypted with {option}", "Correct the password"
        if password is None:
            what, action = f"needs {option}", f"set {option}"
        elif "password" not in str(cause):
            what, action = f"can't be read as PKCS12: {cause}", ""
        raise unusable(store, name, what, action) from None


def _jks(store: Store, name: str) -> OptionError:
    target = str(Path(store.location).with_suffix(".p12"))
    source, quoted = shlex.quote(store.location), shlex.quote(target)
    action = (
        f"convert it with keytool -importkeystore -srckeystore {source} -destkeystore {quoted} "
        f"-deststoretype PKCS12, and set {name}={target}"
    )
    return unusable(store, name, "has Java's old format JKS, which kfetch does not read", action)


def unusable(store: Store, name: str, what: str, action: str = "") -> OptionError:
    """Returns the error for a store that can't be used. ``name``: the option that names it."""
    subject = f"option {name}: {store.location}" if store.location else f"option {name}"
    return OptionError(f"{subject} {what}", action=action, option=name, path=store.location)
