"""The types of Protobuf files, as far as they change how values are decoded."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EnumType", "Field", "MessageType"]


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum."""

    name: str
    """Its name without the package, which Java uses for unknown numbers."""
    names: dict[int, str]
    """The first name of each number."""
    numbers: dict[str, int]
    """The number of each name."""
    first: int
    """The number that stands first: the default."""
    is_closed: bool
    """Whether other numbers count as unknown fields: in proto2."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message."""

    name: str
    number: int
    type: int
    """The number of FieldDescriptorProto.Type."""
    type_name: str
    """The full name of its message or enum."""
    is_repeated: bool
    is_required: bool
    oneof: int
    """The number of its oneof in the message, -1 for none."""
    has_presence: bool
    """Whether an absent field differs from one with the default value."""
    is_strict: bool
    """Whether text that is not UTF-8 is an error."""
    is_closed: bool
    """Whether unknown numbers of its enum count as unknown fields."""
    default: bytes | None
    """The text of the default that its file gives it: UTF-8, for bytes with C's escapes."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's type."""

    full_name: str
    fields: tuple[Field, ...]
    is_map_entry: bool

    @property
    def name(self) -> str:
        """The name without the package and the messages around it."""
        return self.full_name.rpartition(".")[2]
