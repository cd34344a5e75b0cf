"""Key stores and trust stores: every form that is read, and the sentence for every bad one."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire import stores, tls
from kfetch.wire.tls import Contexts
from tests.kfetch.wire.certificates import PASSWORD, VARIANTS, Authority, lines_as_spaces, variants

AUTHORITY = Authority()
CLIENT = AUTHORITY.issue("client")
OTHER = AUTHORITY.issue("other")
TRUST = Store(pem=Secret(AUTHORITY.pem))
HIDDEN = "key-password"
DER = ssl.PEM_cert_to_DER_cert(AUTHORITY.pem)
ENCRYPTED = CLIENT.pem + CLIENT.key(HIDDEN)

Write = Callable[[str | bytes], Store]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a store's file. Returns the store without a password."""

    def to_file(content: str | bytes) -> Store:
        path = tmp_path / f"store{len(list(tmp_path.iterdir()))}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Store(location=str(path))

    return to_file


def trusted(options: TlsOptions) -> list[bytes]:
    """The certificates that a context trusts."""
    return Contexts()(options).get_ca_certs(binary_form=True)


@pytest.mark.parametrize("text", variants(AUTHORITY.pem), ids=VARIANTS)
def test_pem_of_trusted_certificates(write: Write, text: str) -> None:
    """PEM is read from a file and from a value, with line ends or in one line, as Java does."""
    assert [DER] == trusted(TlsOptions(truststore=write(text)))
    assert [DER] == trusted(TlsOptions(truststore=Store(pem=Secret(text))))


@given(
    st.sampled_from([b"", b"0\x03\x02\x01\x03", b"-----BEGIN CERTIFICATE-----"]),
    st.binary(max_size=200),
    st.sampled_from([b"", b"-----END CERTIFICATE-----"]),
)
def test_any_content_is_read_or_refused(begin: bytes, middle: bytes, end: bytes) -> None:
    """No content of a file raises anything but OptionError."""
    with tls._readable_once("") as path:
        Path(path).write_bytes(begin + middle + end)
        with suppress(OptionError):
            Contexts()(TlsOptions(truststore=Store(location=path)))
        with suppress(OptionError):
            Contexts()(TlsOptions(truststore=TRUST, keystore=Store(location=path)))


def test_several_trusted_certificates(write: Write) -> None:
    """All certificates of a bundle are trusted, in one line too."""
    bundle = AUTHORITY.pem + Authority("second").pem

    assert 2 == len(trusted(TlsOptions(truststore=write(bundle))))
    assert 2 == len(trusted(TlsOptions(truststore=Store(pem=Secret(lines_as_spaces(bundle))))))


def test_a_truststore_of_type_pkcs12(write: Write) -> None:
    """A truststore that keytool writes is recognised by its content."""
    store = replace(write(AUTHORITY.truststore_p12()), password=Secret(PASSWORD))

    assert [DER] == trusted(TlsOptions(truststore=store))


@pytest.mark.parametrize("text", variants(CLIENT.pem + CLIENT.key()), ids=VARIANTS)
def test_pem_of_a_key(write: Write, text: str) -> None:
    """A certificate chain and its key are read from a file and from values."""
    for store in (write(text), Store(pem=Secret(text))):
        assert Contexts()(TlsOptions(truststore=TRUST, keystore=store))


@pytest.mark.parametrize("text", [ENCRYPTED, lines_as_spaces(ENCRYPTED)], ids=VARIANTS[:2])
def test_an_encrypted_key(text: str) -> None:
    """``ssl.key.password`` decrypts the key."""
    options = TlsOptions(
        truststore=TRUST, keystore=Store(pem=Secret(text)), key_password=Secret(HIDDEN)
    )

    assert Contexts()(options)


def test_a_keystore_of_type_pkcs12(write: Write) -> None:
    """A keystore of type PKCS12 gives the certificate and the key."""
    store = replace(write(CLIENT.p12()), password=Secret(PASSWORD))
    content = stores.read_keystore(store)

    assert CLIENT.pem == content.certificates
    assert Contexts()(TlsOptions(truststore=TRUST, keystore=store))


# Which store, its content, its password, and the sentence behind the option and the path.
BAD_FILES: list[tuple[str, str | bytes, str | None, str]] = [
    ("truststore", "", None, "has no certificate. Give it as PEM or PKCS12"),
    ("truststore", "hello", None, "has no certificate. Give it as PEM or PKCS12"),
    ("truststore", DER, None, "has no certificate. Give it as PEM or PKCS12"),
    ("truststore", CLIENT.key(), None, "has no certificate. Give it as PEM or PKCS12"),
    ("truststore", AUTHORITY.pem.replace("MI", "QQ"), None, "is damaged: "),
    (
        "truststore",
        AUTHORITY.truststore_p12(),
        "wrong",
        "can't be decrypted with kafka.ssl.truststore.password. Correct the password",
    ),
    (
        "truststore",
        AUTHORITY.truststore_p12(),
        None,
        "needs kafka.ssl.truststore.password: set kafka.ssl.truststore.password",
    ),
    ("truststore", CLIENT.p12()[:40], PASSWORD, "can't be read as PKCS12: "),
    ("keystore", CLIENT.pem, None, "has no private key"),
    ("keystore", AUTHORITY.truststore_p12(), PASSWORD, "has no private key"),
    (
        "keystore",
        CLIENT.p12(),
        "wrong",
        "can't be decrypted with kafka.ssl.keystore.password. Correct the password",
    ),
    (
        "keystore",
        CLIENT.pem + OTHER.key(),
        None,
        "has a private key that does not belong to its first certificate",
    ),
    ("keystore", ENCRYPTED, None, "has an encrypted key: set kafka.ssl.key.password"),
    ("keystore", CLIENT.pem + CLIENT.key().replace("M", "Q"), None, "is damaged: "),
]


@pytest.mark.parametrize(
    ("kind", "content", "password", "sentence"), BAD_FILES, ids=map(str, range(len(BAD_FILES)))
)
def test_bad_files(
    write: Write, kind: str, content: str | bytes, password: str | None, sentence: str
) -> None:
    """A file that can't be used has one sentence with the option and the path, and no secret."""
    store = replace(write(content), password=None if password is None else Secret(password))
    with pytest.raises(OptionError) as caught:
        Contexts()(TlsOptions(**{kind: store}))

    told = f"option kafka.ssl.{kind}.location: {store.location} {sentence}"
    assert told == caught.value.message[: len(told)]
    assert (f"kafka.ssl.{kind}.location", store.location) == (
        caught.value.option,
        caught.value.path,
    )
    assert "PRIVATE" not in str(caught.value)


def test_a_wrong_key_password() -> None:
    """A password that does not decrypt the key is not shown."""
    options = TlsOptions(
        truststore=TRUST, keystore=Store(pem=Secret(ENCRYPTED)), key_password=Secret("wrong-one")
    )
    with pytest.raises(OptionError) as caught:
        Contexts()(options)

    assert (
        "option kafka.ssl.keystore.key has a key that can't be decrypted with "
        "kafka.ssl.key.password" == caught.value.message
    )


@pytest.mark.parametrize("path", ["/nowhere/ca.pem", "/", "bad\0path"])
def test_a_file_that_cannot_be_read(path: str) -> None:
    """A missing file, a folder and an impossible name are named, and the machine."""
    with pytest.raises(OptionError, match=r"kafka.ssl.truststore.location: .* can't be read"):
        Contexts()(TlsOptions(truststore=Store(location=path)))


@pytest.mark.parametrize("magic", [b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"])
def test_jks_is_refused_with_its_conversion(tmp_path: Path, magic: bytes) -> None:
    """Java's old format is refused with the command that converts it."""
    path = tmp_path / "my store.jks"
    path.write_bytes(magic + b"\0\0\0\2")
    with pytest.raises(OptionError) as caught:
        Contexts()(TlsOptions(truststore=Store(location=str(path), password=Secret(PASSWORD))))

    assert (
        f"convert it with keytool -importkeystore -srckeystore '{path}' -destkeystore "
        f"'{tmp_path}/my store.p12' -deststoretype PKCS12" in caught.value.action
    )


def test_pkcs12_without_its_library(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cryptography, the sentence names the extra to install."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(OptionError, match=r"pip install 'kfetch\[pkcs12\]'"):
        Contexts()(TlsOptions(truststore=write(AUTHORITY.truststore_p12())))


def test_ciphers_that_this_machine_lacks() -> None:
    """If OpenSSL has none of the suites, the sentence says so."""
    with pytest.raises(OptionError, match="has no suite that this machine"):
        Contexts()(TlsOptions(ciphers=("NO-SUCH-CIPHER",)))


def test_a_context_is_made_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand connections of equal options parse their certificates once."""
    made: list[TlsOptions] = []
    monkeypatch.setattr(tls, "_new_context", lambda options: made.append(options) or object())
    contexts, store = Contexts(), write(AUTHORITY.pem)
    used = {id(contexts(TlsOptions(truststore=replace(store)))) for _ in range(1000)}

    assert (1, 1) == (len(made), len(used))


def test_secrets_tell_contexts_apart() -> None:
    """Options with another password or key have a context of their own."""
    contexts = Contexts()
    first = TlsOptions(truststore=TRUST, keystore=Store(pem=Secret(CLIENT.pem + CLIENT.key())))
    second = TlsOptions(truststore=TRUST, keystore=Store(pem=Secret(OTHER.pem + OTHER.key())))

    assert contexts(first) is not contexts(second)
    assert contexts(first) is contexts(replace(first))


def test_a_renewed_file_is_taken_up(write: Write) -> None:
    """After a file has changed, the next connection has a new context."""
    contexts, store = Contexts(), write(AUTHORITY.pem)
    options = TlsOptions(truststore=store)
    first = contexts(options)
    renewed = Authority("renewed")
    Path(store.location).write_text(renewed.pem + AUTHORITY.pem)

    assert first is not contexts(options)
    assert 2 == len(contexts(options).get_ca_certs())


def test_a_half_renewed_file_changes_nothing(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """While a file can't be used, new connections keep the last content. One warning says so."""
    contexts, store = Contexts(), write(CLIENT.pem + CLIENT.key())
    options = TlsOptions(truststore=TRUST, keystore=store)
    first = contexts(options)
    Path(store.location).write_text(CLIENT.pem + OTHER.key() + "\n")
    assert first is contexts(options)
    os.unlink(store.location)
    assert [first] * 3 == [contexts(options) for _ in range(3)]
    Path(store.location).write_text(OTHER.pem + OTHER.key())

    assert first is not contexts(options)
    assert 2 == len(caplog.messages)
    assert all("new connections use the last content" in text for text in caplog.messages)


def test_the_memory_of_contexts_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many different options don't keep as many contexts."""
    monkeypatch.setattr(tls, "_new_context", lambda _: object())
    contexts = Contexts()
    for number in range(100):
        contexts(TlsOptions(key_password=Secret(str(number))))

    assert len(contexts._contexts) <= 32


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_key_is_on_no_disk_afterwards(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The key is memory without a name on Linux. Elsewhere its private file is gone at once."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with tls._readable_once(CLIENT.key()) as path:
        files = list(tmp_path.iterdir())
        assert CLIENT.key() == Path(path).read_text()
        assert in_memory == (not files)
        assert all(0o600 == file.stat().st_mode & 0o777 for file in files)

    assert [] == list(tmp_path.iterdir())
    assert not Path(path).exists()
