"""The schemas of a registry, as decoders see them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema, and those that it refers to."""

    id: int
    """Its number; 0 for a schema that was found by a subject and whose answer has no number."""
    version: int
    """Its version in the subject by which it was found; 0 for one that was found by its id."""
    kind: str
    """``AVRO``, ``PROTOBUF`` or ``JSON``."""
    text: str
    """JSON for Avro. For Protobuf the Base64 of a FileDescriptorProto, if the registry has it."""
    references: tuple[str, ...] = ()
    """The texts of the schemas that it needs. Each stands behind those that it needs itself."""


class SchemaUnknown(Exception):
    """The registry answers, and has no such schema, subject or version. It is a sentence."""


class SchemaSource(Protocol):
    """Has schemas: a registry (``client.Registry``)."""

    @property
    def name(self) -> str:
        """Its name, for errors."""

    def by_id(self, number: int, *, form: str = "") -> Schema:
        """Returns the schema of an id. See ``client.Registry``."""
