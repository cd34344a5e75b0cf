"""The options of Protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from kfetch.options.formats import TypedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufColumn(TypedColumn):
    """How keys or values become structs: keyFormat=protobuf, valueFormat=protobuf."""

    format: ClassVar[str] = "protobuf"
    reads: ClassVar[tuple[str, ...]] = (
        *("Descriptor", "Message", "Mode", "Fields"),
        *("Registry", "Subject", "SubjectVersion"),
    )
    reader_option: ClassVar[str] = "Descriptor"

    path: str
    """The file with the FileDescriptorSet, on the driver's machine; empty for a registry's."""
    message: str
    """The message's full name; empty until the driver has asked the registry for the first one."""
    mode: str = TypedColumn.default_mode.lower()
    descriptors: bytes = field(default=b"", repr=False)
    """The file's bytes, which the driver reads and sends to the tasks."""

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **shared: Any) -> Self:
        """See TypedColumn."""
        return cls(path=texts["Descriptor"], message=texts["Message"], **shared)

    @classmethod
    def needed(cls, column: str, texts: Mapping[str, str], *, has_registry: bool) -> dict[str, str]:
        """See TypedColumn."""
        # With a registry, a message may be alone: its types are the subject's.
        if has_registry and not texts["Descriptor"]:
            return {}
        return {
            "Descriptor": "a file of protoc; docs/how-to/protobuf.md has an example",
            "Message": "a full name; docs/how-to/protobuf.md has an example",
        }

    @property
    def type_option(self) -> str:
        """See TypedColumn."""
        return f"{self.column}Message"


COLUMN = ProtobufColumn
