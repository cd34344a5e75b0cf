"""Bytes that are not UTF-8, and the text that Java's ``new String(bytes, UTF_8)`` makes of them.

``integration/interop/test_java_text.py`` holds the table to Java.
"""

from __future__ import annotations

TEXTS = {
    b"a\xffb": "a\ufffdb",
    b"\xc0\x80": "\ufffd\ufffd",
    b"\xe0\x80\x80": "\ufffd\ufffd\ufffd",
    b"\xe2\x82": "\ufffd",
    b"\xe2\x82a": "\ufffda",
    b"\xed\x9f\xbf": "\ud7ff",
    b"\xee\x80\x80": "\ue000",
    # Half a surrogate pair, whole and cut off
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xbf\xbf": "\ufffd",
    b"\xed\xa0": "\ufffd",
    b"\xed\xa0a": "\ufffda",
    b"\xed\xa0\xed\xa0\x80\x80": "\ufffd\ufffd\ufffd",
    b"\xed": "\ufffd",
    b"\xedA": "\ufffdA",
    # A surrogate pair, as CESU-8 has it
    b"k\xed\xa0\xbd\xed\xb0\x8ek": "k\ufffd\ufffdk",
    b"\xf0\x9f\x90\x8e": "\U0001f40e",
    b"\xf0\x9f\x90": "\ufffd",
    b"\xf0\x80\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
    b"\xf4\x90\x80\x80": "\ufffd\ufffd\ufffd\ufffd",
}
