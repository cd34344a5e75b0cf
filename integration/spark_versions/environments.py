"""An environment for each version of Spark, below ``.venv/sparks``. uv links files of its cache.

The packages have the versions of the lock file. pyspark is another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from kfetch_jobs.util.files import wait_for_lock

ROOT = Path(__file__).parents[2]
_DIRECTORY = ROOT / ".venv" / "sparks"
_DECLARED = ("pyproject.toml", "spark_source/pyproject.toml", "jobs/pyproject.toml", "uv.lock")


def python(version: str) -> Path:
    """Returns the Python of an environment with this Spark. Makes the environment if necessary."""
    if version == metadata.version("pyspark"):
        return Path(sys.executable)
    home = _DIRECTORY / version
    with wait_for_lock(_DIRECTORY / f"{version}.lock"):
        if not _is_current(home):
            _make(home, version)
    return home / "bin" / "python"


def _is_current(home: Path) -> bool:
    ready = home / ".ready"
    if not ready.exists():
        return False
    made = ready.stat().st_mtime
    return all((ROOT / name).stat().st_mtime <= made for name in _DECLARED)


def _make(home: Path, version: str) -> None:
    print(f"making an environment with pyspark {version} …", file=sys.stderr, flush=True)
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(home))
    (home / "locked.txt").write_text(_locked_packages())
    # kfetch-jobs pins the Spark of its Delta. The tests need its Kafka and its jars alone.
    (home / "spark.txt").write_text(f"pyspark[connect]=={version}\n")
    own = ("-e", "./spark_source[spark]", "-e", "./jobs", "--group", "dev")
    chosen = ("--override", str(home / "spark.txt"), "--constraint", str(home / "locked.txt"))
    _uv("pip", "install", "--quiet", "--python", str(home / "bin/python"), *chosen, *own)
    (home / ".ready").touch()


def _locked_packages() -> str:
    words = ("--quiet", "--frozen", "--no-hashes", "--no-emit-workspace", "--all-packages")
    lines = _uv("export", *words, "--format", "requirements-txt").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("pyspark", "-e"))) + "\n"


def _uv(*words: str) -> str:
    """Run uv. Return its stdout."""
    program = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    environ = os.environ | {"VIRTUAL_ENV": ""}
    done = subprocess.run(
        [program, *words], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(words)} failed:\n{done.stderr}")
    return done.stdout
