"""Files of Protobuf types as schema registries hold them."""

from __future__ import annotations

from kfetch.formats.protobuf.fields import all_of, fields_of

__all__ = ["alone"]


def alone(descriptors: bytes) -> bytes:
    """Returns the last file of a FileDescriptorSet, without those that it imports."""
    return all_of(fields_of(descriptors), 1)[-1]
