"""Which Java runs Kafka: $KFETCH_JAVA, else $JAVA_HOME, else ``java`` on the PATH. 17 or later."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kfetch_jobs.errors import JavaError

__all__ = ["JAVA_MINIMUM", "find_java", "java_version"]

JAVA_MINIMUM = 17
JAVA_VARIABLE = "KFETCH_JAVA"
_ADVICE = f"install Java {JAVA_MINIMUM} or later, or point {JAVA_VARIABLE} or JAVA_HOME to one"


def find_java() -> str:
    """The executable of a Java that is new enough."""
    java = _executable()
    version = java_version(java)
    if version < JAVA_MINIMUM:
        raise JavaError(f"{java} is Java {version}, and Kafka 4 needs {JAVA_MINIMUM}: {_ADVICE}")
    return java


def _executable() -> str:
    for variable in (JAVA_VARIABLE, "JAVA_HOME"):
        if value := os.environ.get(variable):
            return _named(variable, Path(value).expanduser())
    found = shutil.which("java")
    if found is None:
        raise JavaError(f"there is no Java on this machine's PATH: {_ADVICE}")
    return found


def _named(variable: str, path: Path) -> str:
    for candidate in (path / "bin" / "java", path):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise JavaError(f"{variable} is {path}, and there is no Java: {_ADVICE}")


def java_version(java: str) -> int:
    """The feature release that ``java -version`` names."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise JavaError(f"{java} does not run ({cause}): {_ADVICE}") from cause
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if found is None:
        raise JavaError(f"{java} -version names no version: {_ADVICE}")
    return int(found[1])
