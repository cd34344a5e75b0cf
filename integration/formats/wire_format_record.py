"""Records what Confluent's own serializers write, as vectors for the unit tests.

    python -m venv .venv/confluent
    .venv/confluent/bin/pip install "confluent-kafka[schemaregistry]" fastavro protobuf \
        googleapis-common-protos
    .venv/confluent/bin/python -m integration.formats.wire_format_record

They need more packages than kfetch's tests have, so this runs in an environment of its own.
"""

from __future__ import annotations

import base64
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "tests" / "vectors" / "confluent" / "wire_format.json"
_TOPIC = "orders"
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}
_ORDERS = [{"id": 5, "name": "pen"}, {"id": -1, "name": None}, {"id": 1 << 40, "name": "ü" * 70}]
_NAMES = ("shop.First", "shop.Order", "shop.Order.Item", "shop.Order.Item.Tag", "shop.Last")


def _client() -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient.new_client({"url": "mock://registry"})


def _context() -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(_TOPIC, MessageField.VALUE)


def _avro(client: Any) -> list[dict[str, Any]]:
    from confluent_kafka.schema_registry.avro import AvroSerializer

    cases = []
    for extra in range(2):
        more = [{"name": f"more{extra}", "type": "int", "default": extra}]
        schema = _SCHEMA | {"fields": [*_SCHEMA["fields"], *more]}
        serializer = AvroSerializer(client, json.dumps(schema))
        for order in _ORDERS:
            row = order | {f"more{extra}": extra + 1}
            value = serializer(row, _context())
            number = client.get_latest_version(f"{_TOPIC}-value").schema_id
            case = {"id": number, "schema": json.dumps(schema), "value": value.hex(), "row": row}
            cases.append(case)
    return cases


def _file() -> Any:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
    from google.protobuf.descriptor_pb2 import FileDescriptorProto as File

    def message(name: str, *inside: Any) -> Any:
        made = DescriptorProto(name=name)
        kinds = FieldDescriptorProto
        made.field.add(name="n", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
        made.nested_type.extend(inside)
        return made

    item = message("Item", message("Tag"))
    messages = [message("First"), message("Order", message("Other"), item), message("Last")]
    return File(name="shop.proto", package="shop", syntax="proto3", message_type=messages)


def _protobuf(client: Any) -> list[dict[str, Any]]:
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    cases = []
    for number, name in enumerate(_NAMES):
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        value = ProtobufSerializer(kind, client)(kind(n=number), _context())
        latest = client.get_latest_version(f"{_TOPIC}-value")
        case = {"id": latest.schema_id, "message": name, "n": number, "value": value.hex()}
        cases.append(case | {"schema": latest.schema.schema_str})
    return cases


def main() -> None:
    """Writes the file of vectors."""
    made = {
        "made with": f"confluent-kafka {version('confluent-kafka')}",
        "avro": _avro(_client()),
        "protobuf": _protobuf(_client()),
        "file": base64.b64encode(_file().SerializeToString()).decode(),
    }
    _FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
