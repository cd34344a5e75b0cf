"""Counts what Python does, so that a test of speed does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from kfetch import formats

_FOLDER = str(Path(formats.__file__).parent)


def lines_run(action: Callable[[], object]) -> int:
    """Returns how many lines of kfetch.formats run in an action."""
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(_FOLDER):
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines
