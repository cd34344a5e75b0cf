"""Virtual environments with kfetch's wheels, and the commands that run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kfetch_jobs.jvm.java import find_java

ROOT = Path(__file__).parents[2]
ARCHIVED_SPARK = {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
"""A variable for long tests: the JVM has the jars of the tests' Spark, whose classes are archived.

So it starts in half of the time. All Python packages are still those of the environment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment with kfetch's wheels in it."""

    bin: Path
    install_s: float
    """The duration of the installation, in seconds. Packages may come from a cache."""

    def run(
        self, *command: str, cwd: Path, code: int | None = 0, timeout_s: float = 300, **environ: str
    ) -> str:
        """Run a program of the environment by its path. Return its stdout.

        Fails unless the exit code is ``code``; None allows any.
        """
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env=self.variables(cwd) | environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert code in (done.returncode, None), done.stdout + done.stderr
        return done.stdout

    def variables(self, home: Path) -> dict[str, str]:
        """Returns the variables of a user who has not activated the environment.

        PATH has only Java and the system's programs. The caches of jars and code are shared.
        """
        path = f"{Path(find_java()).resolve().parent}:/usr/bin:/bin"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kfetch"
        own = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "KFETCH_CACHE": str(cache)}
        inherited = ("KFETCH_CACHE", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "MAVEN_ARGS")
        return own | {name: os.environ[name] for name in inherited if name in os.environ}

    def packages(self) -> list[str]:
        """Returns the installed packages as ``name==version``."""
        listed = uv("pip", "list", "--format", "freeze", "--python", str(self.bin / "python"))
        return listed.split()

    def megabytes(self) -> float:
        """Returns the size of the environment on disk."""
        files = (file for file in self.bin.parent.rglob("*") if file.is_file())
        return sum(file.lstat().st_size for file in files) / 1e6


def uv(*words: str) -> str:
    """Run uv. Return its stdout."""
    program = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    done = subprocess.run([program, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def install(directory: Path, wheels: Path, requirement: str) -> Environment:
    """Returns a new environment with ``requirement`` from ``wheels``, and others from the index."""
    uv("venv", "--quiet", "--python", sys.executable, str(directory))
    python = directory / "bin" / "python"
    began = time.monotonic()
    uv(
        "pip",
        "install",
        "--quiet",
        "--python",
        str(python),
        "--find-links",
        str(wheels),
        requirement,
    )
    return Environment(bin=directory / "bin", install_s=time.monotonic() - began)
