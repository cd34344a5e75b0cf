"""Recognises the name of a file where the text of a schema belongs."""

from __future__ import annotations

import re

from kfetch.errors import OptionError

__all__ = ["check_is_text"]

_PATH = re.compile(r"(~|\.{0,2}/|file:)\S*|\S+\.(avsc|avro|json|ddl|sql|txt|desc|proto)")


def check_is_text(text: str, option: str) -> None:
    """Raises OptionError for the path of a file in place of its text."""
    if _PATH.fullmatch(text.strip()):
        raise OptionError(
            f"{option} looks like the path of a file ({text.strip()}), and it must be the text "
            "of the schema",
            action=f"read the file in your program; in a job file, write {option}: ${{file:PATH}}",
            option=option,
        )
