"""Options of TLS: every ``kafka.ssl.*`` name, its meaning, and the sentence for every mistake."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.options.catalogue import OPTIONS, lookup
from kfetch.options.option import Treatment
from kfetch.options.secret import Secret
from kfetch.options.tls import TLS_1_3_SUITES, Store, TlsOptions, openssl_name
from kfetch.spark.options import parse

REQUIRED = {
    "kafka.bootstrap.servers": "h:9093",
    "subscribe": "t",
    "kafka.security.protocol": "SSL",
}
# The names of SslConfigs of kafka-clients 4.3.1.
PROPERTIES = """
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol
ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
ROWS = [option for option in OPTIONS if option.name.startswith("kafka.ssl.")]


def tls(**texts: str) -> TlsOptions:
    """The options of TLS for settings without prefix: ``truststore_location`` and so on."""
    named = {f"kafka.ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
    options = parse({**REQUIRED, **named}).network.security.tls
    assert options is not None
    return options


CA, KEY, CHAIN = "-----BEGIN CERTIFICATE----- c", "-----BEGIN PRIVATE KEY----- k", "chain"
LOCATION = {"truststore_location": "/ca.pem"}

# Settings, and the fields that differ from the defaults.
MEANINGS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (LOCATION, {"truststore": Store(location="/ca.pem")}),
    ({**LOCATION, "truststore_type": "PEM"}, {"truststore": Store(location="/ca.pem")}),
    (
        {**LOCATION, "truststore_type": "pkcs12", "truststore_password": "p"},
        {"truststore": Store(location="/ca.pem", password=Secret("p"))},
    ),
    (
        {"truststore_type": "PEM", "truststore_certificates": CA},
        {"truststore": Store(pem=Secret(CA))},
    ),
    (
        {"keystore_location": "/me.p12", "keystore_password": "p", "keystore_type": "JKS"},
        {"keystore": Store(location="/me.p12", password=Secret("p"))},
    ),
    (
        {
            "keystore_type": "PEM",
            "keystore_key": KEY,
            "keystore_certificate_chain": CHAIN,
            "key_password": "k",
        },
        {"keystore": Store(pem=Secret(f"{CHAIN}\n{KEY}")), "key_password": Secret("k")},
    ),
    ({"endpoint_identification_algorithm": ""}, {"check_host_name": False}),
    ({"endpoint_identification_algorithm": " "}, {"check_host_name": False}),
    ({"endpoint_identification_algorithm": "HTTPS"}, {}),
    ({"enabled_protocols": "TLSv1.3"}, {"min_version": "TLSv1.3"}),
    ({"enabled_protocols": "TLSv1.2"}, {"max_version": "TLSv1.2"}),
    ({"enabled_protocols": "TLSv1.3, TLSv1.2,TLSv1.1"}, {}),
    ({"protocol": "TLSv1.2"}, {"max_version": "TLSv1.2"}),
    ({"protocol": "TLSv1.3"}, {}),
    ({"protocol": "TLS"}, {}),
    (
        {"cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
        {"ciphers": ("ECDHE-RSA-AES128-GCM-SHA256",), "max_version": "TLSv1.2"},
    ),
    (
        {"cipher_suites": "TLS_AES_256_GCM_SHA384"},
        {"tls_1_3_suites": ("TLS_AES_256_GCM_SHA384",), "min_version": "TLSv1.3"},
    ),
    (
        {"cipher_suites": "TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_256_CBC_SHA256,"},
        {"ciphers": ("AES256-SHA256",), "tls_1_3_suites": ("TLS_AES_128_GCM_SHA256",)},
    ),
    ({"cipher_suites": ""}, {}),
    ({"cipher_suites": "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"}, {}),
]


@pytest.mark.parametrize(("given_", "fields"), MEANINGS)
def test_meanings(given_: dict[str, str], fields: dict[str, Any]) -> None:
    """Each setting has Java's meaning and default."""
    assert TlsOptions(**fields) == tls(**given_)


def test_every_built_option_is_tried() -> None:
    """No row of TLS escapes the table above."""
    tried = {f"kafka.ssl.{name.replace('_', '.')}" for texts, _ in MEANINGS for name in texts}

    assert {row.name for row in ROWS if row.treatment is Treatment.BUILT} == tried


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_catalogue_tells_the_default(row: Any) -> None:
    """The default in the option table changes nothing."""
    if row.default != "none":
        assert TlsOptions() == parse({**REQUIRED, row.name: row.default}).network.security.tls


@pytest.mark.parametrize("protocol", ["PLAINTEXT", None])
def test_without_tls_the_settings_have_no_effect(protocol: str | None) -> None:
    """As in Java's client, TLS is used only if the protocol says so."""
    options = {**REQUIRED, "kafka.ssl.truststore.location": "/ca", "kafka.security.protocol": ""}
    del options["kafka.security.protocol"]
    if protocol:
        options["kafka.security.protocol"] = protocol

    assert parse(options).network.security.tls is None


def test_every_property_of_java_has_a_row() -> None:
    """The catalogue names each property of TLS, and no other."""
    assert {f"kafka.{name}" for name in PROPERTIES.split()} == {row.name for row in ROWS}


def test_a_misspelt_name_gets_a_suggestion() -> None:
    """An unknown name of TLS is an error, because a silent one would leave kfetch insecure."""
    with pytest.raises(OptionError, match=r"did you mean kafka\.ssl\.truststore\.location\?"):
        parse({**REQUIRED, "kafka.ssl.trustore.location": "/ca"})


IANA = [
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("SSL_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ("TLS_RSA_WITH_NULL_SHA", None),
    ("ECDHE-RSA-AES128-GCM-SHA256", None),
    ("TLS_AES_256_GCM_SHA384", None),
    ("ALL", None),
]


@pytest.mark.parametrize(("suite", "cipher"), IANA)
def test_names_of_ciphers(suite: str, cipher: str | None) -> None:
    """A suite of TLS 1.2 has another name in OpenSSL."""
    assert cipher == openssl_name(suite)


def test_openssl_has_the_ciphers() -> None:
    """OpenSSL knows every translated name, and every suite of TLS 1.3 that it switches on."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for _, cipher in IANA:
        if cipher:
            context.set_ciphers(f"{cipher}:@SECLEVEL=0")
            assert cipher in [found["name"] for found in context.get_ciphers()]
    suites = {c["name"] for c in context.get_ciphers() if c["protocol"] == "TLSv1.3"}
    assert suites <= TLS_1_3_SUITES


S = "kafka.ssl."
MISTAKES: list[tuple[dict[str, str], str]] = [
    (
        {"truststore_type": "BKS"},
        f"option {S}truststore.type is 'BKS', but it must be JKS, PKCS12 or PEM",
    ),
    (
        {"truststore_certificates": CA},
        f"option {S}truststore.certificates needs {S}truststore.type=PEM: change one of them",
    ),
    (
        {"truststore_certificates": CA, "truststore_type": "PEM", **LOCATION},
        f"options {S}truststore.location and {S}truststore.certificates are both set: change one "
        "of them",
    ),
    (
        {"truststore_certificates": CA, "truststore_type": "PEM", "truststore_password": "p"},
        f"option {S}truststore.password can't be set for PEM: change one of them",
    ),
    (
        {"truststore_password": "p"},
        f"option {S}truststore.password is set, but {S}truststore.location is not: change one of "
        "them",
    ),
    (
        {"keystore_key": KEY, "keystore_type": "PEM"},
        f"option {S}keystore.key is set, but {S}keystore.certificate.chain is not: set both",
    ),
    (
        {"keystore_certificate_chain": CHAIN, "keystore_type": "PEM"},
        f"option {S}keystore.certificate.chain is set, but {S}keystore.key is not: set both",
    ),
    (
        {"keystore_key": KEY, "keystore_certificate_chain": CHAIN},
        f"option {S}keystore.key needs {S}keystore.type=PEM: change one of them",
    ),
    (
        {"keystore_location": "/k", "keystore_type": "PEM", "keystore_password": "p"},
        f"option {S}keystore.password can't be set for PEM; an encrypted key has "
        f"{S}key.password: change one of them",
    ),
    (
        {"keystore_password": "p"},
        f"option {S}keystore.password is set, but {S}keystore.location is not: change one of them",
    ),
    (
        {"endpoint_identification_algorithm": "none"},
        f"option {S}endpoint.identification.algorithm is 'none', but it must be https, or empty: "
        "then host names are not checked",
    ),
    (
        {"enabled_protocols": "TLSv1.1"},
        f"option {S}enabled.protocols is 'TLSv1.1', but it must be a list of TLSv1.2, TLSv1.3 or "
        "both",
    ),
    (
        {"enabled_protocols": "TLSv1.2,TLSv1.4"},
        f"option {S}enabled.protocols is 'TLSv1.2,TLSv1.4', but it must be a list of TLSv1.2, "
        "TLSv1.3 or both",
    ),
    (
        {"protocol": "SSLv3"},
        f"option {S}protocol is 'SSLv3', but it must be TLSv1.2 or TLSv1.3",
    ),
    (
        {"protocol": "TLSv1.2", "enabled_protocols": "TLSv1.3"},
        f"option {S}protocol is TLSv1.2, but {S}enabled.protocols has only TLSv1.3: remove "
        f"{S}protocol",
    ),
    (
        {"cipher_suites": "AES128"},
        f"option {S}cipher.suites is 'AES128', but it must be a list of names such as "
        "TLS_AES_256_GCM_SHA384 or TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, of suites with AES or "
        "ChaCha20; 'AES128' is none",
    ),
    (
        {"cipher_suites": "TLS_AES_256_GCM_SHA384", "enabled_protocols": "TLSv1.2"},
        f"option {S}cipher.suites has no suite for {S}enabled.protocols=TLSv1.2 and "
        f"{S}protocol=TLSv1.3: add one, or remove the option",
    ),
    (
        {"engine_factory_class": "x.Y"},
        f"option {S}engine.factory.class is not supported: a class of Java could change which "
        "brokers are trusted",
    ),
]


@pytest.mark.parametrize(("given_", "message"), MISTAKES, ids=[row[1][:60] for row in MISTAKES])
def test_mistakes(given_: dict[str, str], message: str) -> None:
    """Every mistake has one sentence that names the option."""
    with pytest.raises(OptionError) as caught:
        tls(**given_)

    assert message == caught.value.message


SECRETS = ("truststore.password", "keystore.password", "key.password", "keystore.key")
_texts = st.text(max_size=20) | st.sampled_from(["PEM", "JKS", "TLSv1.3", "https", CA, KEY])


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from([row.name for row in ROWS]), _texts, max_size=6))
def test_any_text_is_read_or_refused(options: dict[str, str]) -> None:
    """No text of any option raises anything but OptionError, or shows a secret."""
    marked = {name: text for name, text in options.items() if not name.endswith(SECRETS)}
    hidden = {name: f"hidden-{text}" for name, text in options.items() if name.endswith(SECRETS)}
    try:
        shown = repr(parse({**REQUIRED, **marked, **hidden}))
    except OptionError as error:
        shown = f"{error} {error.where}"

    assert "hidden-" not in shown


def test_secrets_travel_in_pickles_and_not_in_texts() -> None:
    """The pickled reader has the secrets. No text of the options has them."""
    options = tls(
        keystore_type="PEM", keystore_key=KEY, keystore_certificate_chain=CHAIN, key_password="pw"
    )
    arrived = pickle.loads(pickle.dumps(options))

    assert options == arrived
    assert hash(options) == hash(arrived)
    assert arrived.key_password is not None
    assert "pw" == arrived.key_password.reveal()
    assert "PRIVATE" not in repr(options) + str(options)
    assert lookup("kafka.ssl.keystore.key") is not None
