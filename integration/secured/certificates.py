"""Makes the certificates of a local Kafka: a CA of its own, and what it signs. All files are PEM.

    authority = Authority.open(directory)       ca.pem and ca.key.pem, made if they are missing
    authority.provide("broker", hosts=(…))      broker.pem: certificate, then key

A certificate is valid for a year, or has expired if the caller says so. Files have mode 0600.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kfetch_jobs.util.files import write_private

__all__ = ["Authority", "Certificate"]

_VALID = timedelta(days=365)
_CLOCKS_APART = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate and its key, as PEM text."""

    chain: str
    key: str
    """PKCS #8, not encrypted."""

    def __repr__(self) -> str:
        return "Certificate(hidden)"


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path, certificate: x509.Certificate, key: _Key) -> None:
        self._directory = directory
        self._certificate = certificate
        self._key = key

    @classmethod
    def open(cls, directory: Path, name: str = "ca") -> Authority:
        """Returns a directory's authority. Makes ``NAME.pem`` and ``NAME.key.pem`` at first."""
        public, private = directory / f"{name}.pem", directory / f"{name}.key.pem"
        if public.exists() and private.exists():
            key = load_pem_private_key(private.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey), f"{private} has another kind of key"
            return cls(directory, x509.load_pem_x509_certificate(public.read_bytes()), key)
        key = _new_key()
        subject = _name(f"kfetch local {name}")
        certificate = (
            _builder(subject, subject, key, timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        write_private(private, _pem_of_key(key))
        write_private(public, _pem(certificate))
        return cls(directory, certificate, key)

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (), expired: bool = False
    ) -> Certificate:
        """Returns a new certificate with the CN ``name``, for these hosts; for a client without."""
        key = _new_key()
        valid = -_VALID if expired else _VALID
        certificate = (
            _builder(_name(name), self._certificate.subject, key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_purpose(server=bool(hosts)), critical=False)
            .add_extension(self._key_identifier(), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            certificate = certificate.add_extension(names, critical=False)
        signed = certificate.sign(self._key, hashes.SHA256())
        return Certificate(chain=_pem(signed), key=_pem_of_key(key))

    def provide(self, name: str, *, hosts: tuple[str, ...] = (), expired: bool = False) -> Path:
        """Returns the path of ``NAME.pem``, with certificate and key.

        Issues it if it is missing, and again if it ends within a day.
        """
        path = self._directory / f"{name}.pem"
        if not path.exists() or (_ends_soon(path) and not expired):
            issued = self.issue(name, hosts=hosts, expired=expired)
            write_private(path, issued.chain + issued.key)
        return path

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())


_Key = ec.EllipticCurvePrivateKey
_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _new_key() -> _Key:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _purpose(*, server: bool) -> x509.ExtendedKeyUsage:
    purposes = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    return x509.ExtendedKeyUsage([purposes[0] if server else purposes[1]])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _Key, valid: timedelta
) -> x509.CertificateBuilder:
    """``valid``: how long from now. A negative time: a certificate that expired yesterday."""
    now = datetime.now(UTC)
    ends = now + valid if valid > timedelta() else now - timedelta(days=1)
    begins = min(now, ends - abs(valid)) - _CLOCKS_APART
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _ends_soon(path: Path) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=1)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_of_key(key: _Key) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
