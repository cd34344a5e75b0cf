"""Finds Java 17 or later: $KFETCH_JAVA, else $JAVA_HOME, else ``java`` on the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kfetch_jobs.errors import JavaError

JAVA_MINIMUM = 17
JAVA_VARIABLE = "KFETCH_JAVA"
_ADVICE = f"install Java {JAVA_MINIMUM} or later, or point {JAVA_VARIABLE} or JAVA_HOME to one"


def find_java() -> str:
    """Returns the executable of a Java that is new enough. Raises JavaError without one."""
    java = _executable()
    version = java_version(java)
    if version < JAVA_MINIMUM:
        raise JavaError(f"{java} is Java {version}, and Kafka 4 needs {JAVA_MINIMUM}: {_ADVICE}")
    return java


def _executable() -> str:
    for variable in (JAVA_VARIABLE, "JAVA_HOME"):
        if value := os.environ.get(variable):
            return _java_at(variable, Path(value).expanduser())
    java = shutil.which("java")
    if java is None:
        raise JavaError(f"there is no Java on this machine's PATH: {_ADVICE}")
    return java


def _java_at(variable: str, path: Path) -> str:
    for candidate in (path / "bin" / "java", path):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise JavaError(f"{variable} is {path}, and no Java is there: {_ADVICE}")


def java_version(java: str) -> int:
    """Returns the feature release of ``java -version``. Raises JavaError if it does not run."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise JavaError(f"{java} does not run ({cause}): {_ADVICE}") from cause
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if match is None:
        raise JavaError(f"{java} -version names no version: {_ADVICE}")
    return int(match[1])
