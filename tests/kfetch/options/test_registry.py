"""The options of schema registries."""

from __future__ import annotations

import pytest

from kfetch.errors import OptionError
from kfetch.formats.avro.options import AvroColumn
from kfetch.formats.json.options import JsonColumn
from kfetch.formats.protobuf.options import ProtobufColumn
from kfetch.options.registry import RegistryColumn, RegistryOptions
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.spark.options import parse

REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
AVRO = {"Format": "avro", "Registry": "http://r:8081"}
PLAIN = RegistryOptions(urls=("http://r:8081",))
BOTH = pytest.mark.parametrize("column", ["key", "value"])


def _parsed(column: str, options: dict[str, str], **more: str) -> object:
    named = {column + rest: text for rest, text in options.items()}
    (typed,) = parse({**REQUIRED, **named, **more}).typed_columns
    return typed


@BOTH
@pytest.mark.parametrize(
    ("options", "subject", "version"),
    [
        ({}, "t-%", None),
        ({"Subject": "other"}, "other", None),
        ({"SubjectVersion": "3"}, "t-%", 3),
        ({"SubjectVersion": "Latest"}, "t-%", None),
    ],
)
def test_subjects(column: str, options: dict[str, str], subject: str, version: int | None) -> None:
    """Without its option, the subject has the name of the topic and the column."""
    own = RegistryColumn(registry=PLAIN, subject=subject.replace("%", column), version=version)
    expected = AvroColumn(column=column, schema="", registry=own)
    assert expected == _parsed(column, {**AVRO, **options})


def test_readers_in_options_need_no_subject() -> None:
    """Neither does JSON, whose schema is always an option."""
    own = RegistryColumn(registry=PLAIN)
    many = {"subscribe": "a,b"}
    avro = AvroColumn(column="value", schema="", reader_schema="{}", registry=own)
    assert avro == _parsed("value", {**AVRO, "ReaderSchema": "{}"}, **many)
    json = JsonColumn(column="value", schema="a INT", registry=own)
    assert json == _parsed("value", {**AVRO, "Format": "json", "Schema": "a INT"}, **many)
    protobuf = ProtobufColumn(column="value", path="/f", message="M", registry=own)
    given = {**AVRO, "Format": "protobuf", "Descriptor": "/f", "Message": "M"}
    assert protobuf == _parsed("value", given, **many)


def test_a_message_may_be_alone() -> None:
    """Its types are those of the subject. Without it, the first message is read."""
    own = RegistryColumn(registry=PLAIN, subject="t-value")
    for message in ("", "shop.Order"):
        given = {"Format": "protobuf", "Registry": "http://r:8081", "Message": message}
        expected = ProtobufColumn(column="value", path="", message=message, registry=own)
        assert expected == _parsed("value", given)


def test_all_of_a_registry() -> None:
    """Addresses, a log-in, TLS and a timeout. Keys and values share all but the addresses."""
    typed = _parsed(
        "value",
        {**AVRO, "Registry": " https://r:8081/ , https://s/api "},
        **{
            "schema.registry.basic.auth.user.info": "me: secret \n",
            "schema.registry.ssl.truststore.location": "/ca.pem",
            "Schema.Registry.SSL.endpoint.identification.algorithm": "",
            "kfetch.registry.timeout": "5s",
        },
    )
    assert isinstance(typed, AvroColumn)
    assert typed.registry is not None
    expected = RegistryOptions(
        urls=("https://r:8081", "https://s/api"),
        user_info=Secret("me: secret "),
        tls=TlsOptions(truststore=Store(location="/ca.pem"), check_host_name=False),
        retry_s=5.0,
    )
    assert expected == typed.registry.registry
    assert "secret" not in repr(typed)


@BOTH
@pytest.mark.parametrize(
    ("options", "more", "sentence"),
    [
        ({"Registry": ","}, {}, "option %Registry must have 1 to 16 URLs"),
        ({"Registry": "r:8081"}, {}, "option %Registry is no URL of http or https"),
        ({"Registry": "http://u:p@r"}, {}, "option %Registry must not hold a user or password"),
        ({"Registry": "http://r:70000"}, {}, "option %Registry has a port that is none"),
        ({"Registry": "http://r?a=b"}, {}, "option %Registry must have no query"),
        ({"Registry": "http://me:12/hush@r"}, {}, "option %Registry must have no query and no @"),
        ({"Schema": "{}"}, {}, "%Schema and %Registry both give the writer's schema"),
        ({"SubjectVersion": "0"}, {}, "option %SubjectVersion is '0', but it must be latest"),
        (
            {"Subject": "s", "ReaderSchema": "{}"},
            {},
            "option %Subject has no effect beside a schema of the reader: remove it",
        ),
        ({}, {"subscribe": "a,b"}, "option %Registry needs a schema of the reader"),
        (
            {},
            {"schema.registry.basic.auth.user.info": "hush"},
            "schema.registry.basic.auth.user.info has no colon",
        ),
        ({}, {"schema.registry.bearer.auth.token": "a b"}, "has a character that no token has"),
        (
            {},
            {
                "schema.registry.bearer.auth.token": "t",
                "schema.registry.basic.auth.user.info": "u:hush",
            },
            "are both set",
        ),
        ({}, {"schema.registry.ssl.location": "x"}, "schema.registry.ssl.location is not known"),
        (
            {},
            {"schema.registry.ssl.truststore.password": "hush"},
            "option schema.registry.ssl.truststore.password is set, but "
            "schema.registry.ssl.truststore.location is not",
        ),
        ({}, {"schema.registry.basic.auth": "x"}, "is not known: did you mean schema.registry."),
    ],
)
def test_mistakes(
    column: str, options: dict[str, str], more: dict[str, str], sentence: str
) -> None:
    """The sentence names the option, and shows no secret."""
    with pytest.raises(OptionError) as mistake:
        _parsed(column, {**AVRO, **options}, **more)
    assert sentence.replace("%", column) in mistake.value.message
    assert "hush" not in str(mistake.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"valueSubject": "s"}, "option valueSubject has no effect without"),
        ({"valueRegistry": "http://r"}, "option valueRegistry has no effect without"),
        (
            {"valueFormat": "avro", "valueSchema": "{}", "valueSubject": "s"},
            "option valueSubject has no effect without valueRegistry: remove it",
        ),
        (
            {"schema.registry.bearer.auth.token": "t"},
            "option schema.registry.bearer.auth.token has no effect without valueRegistry",
        ),
        ({"kfetch.registry.timeout": "5s"}, "kfetch.registry.timeout has no effect without"),
    ],
)
def test_options_without_a_registry(options: dict[str, str], sentence: str) -> None:
    """An option that would do nothing is an error."""
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **options})
    assert sentence in mistake.value.message
