"""Each way into a secured broker reads a topic whole: TLS with its kinds of files, and log-ins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from pyspark.sql import SparkSession

from integration.secured import SecuredCluster
from integration.secured.listeners import MECHANISMS
from integration.security.access import VALUES, options, pem_values, read
from integration.streams import drain

pytestmark = pytest.mark.integration
PASSWORD = "not-the-brokers"


@pytest.mark.parametrize("listener", ["SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL"])
def test_each_listener(secured: SecuredCluster, secret_topic: str, listener: str) -> None:
    """A client with the properties that the broker's directory has reads every record."""
    assert VALUES == read(options(secured, listener), secret_topic)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism(
    secured: SecuredCluster, secret_topic: str, listener: str, mechanism: str
) -> None:
    """PLAIN, both kinds of SCRAM and OAUTHBEARER log in, with TLS and without."""
    assert VALUES == read(options(secured, listener, mechanism=mechanism), secret_topic)


def test_pem_as_text(secured: SecuredCluster, secret_topic: str) -> None:
    """Certificates and key may stand in the options themselves (KIP-651)."""
    assert VALUES == read(pem_values(options(secured, "MTLS")), secret_topic)


def test_pkcs12(secured: SecuredCluster, secret_topic: str, tmp_path: Path) -> None:
    """A keystore and a truststore of PKCS12, each with its password."""
    kafka = options(secured, "MTLS") | {
        "kafka.ssl.keystore.location": str(keystore(secured, tmp_path)),
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.password": PASSWORD,
        "kafka.ssl.truststore.location": str(truststore(secured, tmp_path)),
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.truststore.password": PASSWORD,
    }

    assert VALUES == read(kafka, secret_topic)


def keystore(cluster: SecuredCluster, directory: Path) -> Path:
    """Returns a file with the certificate and the key of ``reader``."""
    pem = cluster.credentials.path("reader.pem").read_bytes()
    key = load_pem_private_key(pem[pem.index(b"-----BEGIN PRIVATE") :], None)
    chain = x509.load_pem_x509_certificates(pem)
    path = directory / "reader.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"reader", key, chain[0], chain[1:], BestAvailableEncryption(PASSWORD.encode())
        )
    )
    return path


def truststore(cluster: SecuredCluster, directory: Path) -> Path:
    """Returns a file with the authority's certificate, as Java's keytool writes it."""
    path = directory / "ca.p12"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-storetype", "PKCS12"]
    command += ["-file", cluster.credentials.path("ca.pem"), "-keystore", path]
    subprocess.run([*command, "-storepass", PASSWORD], check=True, capture_output=True, timeout=60)
    return path


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SASL_SSL", "SCRAM-SHA-512"),
        pytest.param("MTLS", "", marks=pytest.mark.long),
        pytest.param("SSL", "", marks=pytest.mark.long),
        pytest.param("SASL_PLAINTEXT", "PLAIN", marks=pytest.mark.long),
        pytest.param("SASL_SSL", "OAUTHBEARER", marks=pytest.mark.long),
    ],
)
def test_through_spark(
    spark: SparkSession,
    secured: SecuredCluster,
    secret_topic: str,
    tmp_path: Path,
    listener: str,
    mechanism: str,
) -> None:
    """A query reads every record, with an agent, from the same options."""
    kafka = options(secured, listener, mechanism=mechanism)
    frame = (
        spark.readStream.format("kfetch")
        .options(**kafka, subscribe=secret_topic, startingOffsets="earliest")
        .load()
    )

    assert VALUES == drain(frame, tmp_path / "checkpoint").values
