"""Text of bytes that may not be UTF-8, as Java has it."""

from __future__ import annotations

import re

# To Java the bytes of half a surrogate pair are one mistake, to Python two or three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACED = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Returns text with U+FFFD for what is not UTF-8, as ``new String(bytes, UTF_8)`` does."""
    if b"\xed" in data:
        data = _SURROGATE.sub(_REPLACED, data)
    return data.decode("utf-8", "replace")
