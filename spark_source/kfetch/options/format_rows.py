"""The rows of the catalogue about the formats of keys and values: option, default, meaning."""

from __future__ import annotations

__all__ = ["REGISTRY_ROWS", "ROWS"]

_MODES = "PERMISSIVE for json, FAILFAST for avro and protobuf"

ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "valueFormat",
        "binary",
        "`string`: `value` is text; `json`, `avro`, `protobuf`: it is a struct, decoded in the "
        "agent; see docs/how-to/json.md, docs/how-to/avro.md, docs/how-to/protobuf.md",
    ),
    (
        "valueSchema",
        "none",
        "the struct of `valueFormat=json`, as DDL or `StructType.json()`; for `avro`, the "
        "writer's schema as the JSON of an .avsc file",
    ),
    (
        "valueReaderSchema",
        "valueSchema",
        "the schema of the struct in Avro, if it differs from the writer's",
    ),
    (
        "valueDescriptor",
        "none",
        "the types of `valueFormat=protobuf`: a file of `protoc --descriptor_set_out` on the "
        "driver",
    ),
    ("valueMessage", "none", "the full name of the message, such as `shop.Order`"),
    (
        "valueRegistry",
        "none",
        "values are in Confluent's wire format, and these schema registries have their schemas: "
        "`https://host:8081,https://other:8081`; see "
        "docs/how-to/schema-registry.md",
    ),
    (
        "valueSubject",
        "`<topic>-value`",
        "the subject whose schema is the reader's, without `valueReaderSchema` or "
        "`valueDescriptor`",
    ),
    ("valueSubjectVersion", "latest", "the version of this schema, as a number"),
    (
        "valueMode",
        _MODES,
        "a value that does not fit: `PERMISSIVE` makes the field null in JSON, all fields in "
        "Avro, and the value in Protobuf; `FAILFAST` fails the query",
    ),
    ("valueTimeZone", "none", "the zone of times without one in JSON, such as `UTC`"),
    (
        "valueFields",
        "nested",
        "`flat`: the fields of the struct are columns, in place of `value`",
    ),
    ("keyFormat", "binary", "the same for `key`: `string`, `json`, `avro` or `protobuf`"),
    ("keySchema", "none", "the struct of `keyFormat=json`; the writer's schema of `avro`"),
    ("keyReaderSchema", "keySchema", "the schema of the struct of keys in Avro"),
    ("keyDescriptor", "none", "the file with the types of `keyFormat=protobuf`"),
    ("keyMessage", "none", "the full name of the message of keys"),
    ("keyRegistry", "none", "keys are in Confluent's wire format, with these schema registries"),
    ("keySubject", "`<topic>-key`", "the subject whose schema is the reader's of keys"),
    ("keySubjectVersion", "latest", "the version of this schema, as a number"),
    ("keyMode", _MODES, "a key that does not fit: `PERMISSIVE` or `FAILFAST`"),
    ("keyTimeZone", "none", "the zone of times without one in keys"),
    (
        "deadLetters",
        "none",
        "`column`: adds `deadLetter`, null for good records; else why a key or value does not "
        "fit, and its bytes; see docs/how-to/dead-letters.md",
    ),
)

REGISTRY_ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "schema.registry.basic.auth.user.info",
        "none",
        "`user:password` for the schema registries; secret",
    ),
    ("schema.registry.bearer.auth.token", "none", "a token for them instead; secret"),
    (
        "schema.registry.ssl.*",
        "none",
        "TLS of the schema registries, with the names, defaults and meanings of `kafka.ssl.*`",
    ),
    (
        "kfetch.registry.timeout",
        "60s",
        "how long kfetch asks a schema registry again that does not answer; at most half of "
        "`kafkaConsumer.pollTimeoutMs`",
    ),
)
"""Rows about the connection to schema registries, which keys and values share."""
