"""Certificates for tests: an authority, what it signs, and the contexts of servers.

The keys are of elliptic curves, which take no time to make.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-password"
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate, its private key, and the authority that signed it."""

    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key(self, password: str = "") -> str:
        """The private key, encrypted if there is a password."""
        form = PrivateFormat.PKCS8
        encoded = self.private_key.private_bytes(Encoding.PEM, form, encryption(password))
        return encoded.decode()

    def p12(self, password: str = PASSWORD) -> bytes:
        """Both as a PKCS12 file."""
        return pkcs12.serialize_key_and_certificates(
            b"me", self.private_key, self.certificate, None, encryption(password)
        )


class Authority(Identity):
    """An authority that signs certificates. Without an issuer it is a root."""

    def __init__(self, name: str = "authority", issuer: Identity | None = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        super().__init__(_certificate(name, key, issuer, authority=True), key)

    def issue(self, *names: str, days: tuple[int, int] = (-1, 30)) -> Identity:
        """A certificate for these host names and addresses.

        ``days``: its validity, counted from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        return Identity(_certificate("leaf", key, self, *names, days=days), key)

    def truststore_p12(self, password: str = PASSWORD) -> bytes:
        """The authority's certificate as a Java truststore of type PKCS12."""
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, b"ca")], encryption(password)
        )


def encryption(password: str) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: Identity | None,
    *names: str,
    days: tuple[int, int] = (-1, 30),
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer.certificate.subject if issuer else _name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([*map(_alternative, names)])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(issuer.private_key if issuer else key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def server_context(
    identity: Identity,
    folder: Path,
    *,
    clients: Identity | None = None,
    version: ssl.TLSVersion | None = None,
    ciphers: str = "",
) -> ssl.SSLContext:
    """A server's context. ``clients``: the authority of required client certificates."""
    path = folder / f"{identity.certificate.serial_number}.pem"
    path.write_text(identity.pem + identity.key())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    return context


def lines_as_spaces(pem: str) -> str:
    """PEM in one line, as Java accepts it."""
    return " ".join(pem.split("\n"))


def variants(pem: str) -> list[str]:
    """The same PEM as people write it, as ``VARIANTS`` names it."""
    bag = "Bag Attributes\n    friendlyName: x\n"
    return [pem, lines_as_spaces(pem), pem.replace("\n", "\r\n"), bag + pem.strip()]


VARIANTS = ("PEM", "one line", "CRLF", "with a bag")
