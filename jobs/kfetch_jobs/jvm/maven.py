"""Downloads jar files by their Maven coordinates, without Maven. jgo resolves, kfetch caches.

    jars("org.apache.kafka:kafka_2.13:4.3.1")   ->  [Path(".../kafka_2.13-4.3.1.jar"), ...]

The cache is ``$KFETCH_CACHE``, else ``$XDG_CACHE_HOME/kfetch``, else ``~/.cache/kfetch``. It holds
only relative paths. So you can copy a filled cache to a machine without a network.

Not for: version ranges, snapshots, other repositories than jgo's default.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch_jobs.errors import MavenError
from kfetch_jobs.util.files import wait_for_lock, write_json

if TYPE_CHECKING:
    from jgo.maven import Artifact

CACHE_VARIABLE = "KFETCH_CACHE"


def cache_directory() -> Path:
    """Returns the directory of the downloads of this user, for all projects. Raises MavenError."""
    directory = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(directory or f"{base}/kfetch").expanduser().absolute()
    except RuntimeError:
        raise MavenError(
            "this user has no home directory for downloads",
            action=f"set {CACHE_VARIABLE} to the directory that gets them",
        ) from None


def jars(*coordinates: str, exclude: Collection[str] = (), transitive: bool = True) -> list[Path]:
    """Returns the jars of ``group:artifact:version`` coordinates and of their dependencies, sorted.

    ``exclude`` leaves out artifacts whose name starts with one of its words.
    ``transitive=False`` takes the named jars alone.

    The first call downloads. Later calls read one small file and touch no network.
    """
    cache = cache_directory()
    listing = _listing(cache, coordinates, transitive)
    paths = _read_listing(cache, listing)
    if paths is None:
        # The decoder's code lies there too. It is trusted only if no other user can write there.
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
        with wait_for_lock(cache / "maven" / "lock"):
            # Another process may have downloaded them while this one waited.
            paths = _read_listing(cache, listing) or _fill(cache, listing, coordinates, transitive)
    return [path for path in paths if not path.name.startswith(tuple(exclude))]


def is_cached(*coordinates: str, transitive: bool = True) -> bool:
    """Returns whether ``jars`` can answer without the network."""
    cache = cache_directory()
    return _read_listing(cache, _listing(cache, coordinates, transitive)) is not None


def _listing(cache: Path, coordinates: Sequence[str], transitive: bool) -> Path:
    return cache / "maven" / f"{_key(coordinates, transitive)}.json"


def _key(coordinates: Sequence[str], transitive: bool) -> str:
    text = json.dumps([sorted(coordinates), transitive])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read_listing(cache: Path, listing: Path) -> list[Path] | None:
    """The jars of an earlier call; None without one, or if a file is missing or truncated."""
    try:
        entries = json.loads(listing.read_text())["jars"]
        intact = all((cache / name).stat().st_size == size for name, size in entries)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return sorted(cache / name for name, _ in entries) if intact else None


def _fill(cache: Path, listing: Path, coordinates: Sequence[str], transitive: bool) -> list[Path]:
    paths = sorted(_download(cache, coordinates, transitive))
    sizes = [(path.relative_to(cache).as_posix(), path.stat().st_size) for path in paths]
    write_json(listing, {"coordinates": sorted(coordinates), "jars": sizes})
    return paths


def _download(cache: Path, coordinates: Sequence[str], transitive: bool) -> set[Path]:
    from jgo.maven import MavenContext  # late: it costs 0.3 s, and a warm cache needs none of it

    # kfetch's own repository. In its default ~/.m2, jgo leaves POMs without jars. Spark's Ivy reads
    # ~/.m2 too, takes such a module for present and fails on the missing jar (seen: snappy-java).
    context = MavenContext(
        resolver=_resolver(), repo_cache=cache / "maven" / "repository", timeout=60
    )
    _drop_unfinished(context.repo_cache)
    try:
        artifacts = _artifacts(context, coordinates, transitive)
        # Each jar is two small requests on a new connection: threads wait at the same time.
        with ThreadPoolExecutor(max_workers=8) as pool:
            return set(pool.map(_jar, artifacts))
    except MavenError:
        raise
    except Exception as cause:  # jgo lets exceptions of requests, XML and the disk through
        raise MavenError(_sentence(" and ".join(coordinates), cause)) from cause


def _artifacts(context: Any, coordinates: Sequence[str], transitive: bool) -> list[Artifact]:
    from jgo.parse import Coordinate

    # Raw: else jgo takes each coordinate for a BOM too, unlike Maven. Seen: log4j's POM manages
    # kafka-clients, so Kafka 4.3.1 got the clients of 3.9.1.
    parsed = (Coordinate.parse(name) for name in coordinates)
    requested = [context.create_dependency(replace(c, scope="compile", raw=True)) for c in parsed]
    if not transitive:
        return [dependency.artifact for dependency in requested]
    direct, indirect = context.resolver.resolve(requested)
    running = [d for d in indirect if d.scope in ("compile", "runtime")]
    return [dependency.artifact for dependency in (*direct, *running)]


def _jar(artifact: Artifact) -> Path:
    try:
        path = Path(artifact.resolve())
    except Exception as cause:
        raise MavenError(_sentence(str(artifact), cause)) from cause
    if not zipfile.is_zipfile(path):
        path.unlink()
        raise MavenError(_sentence(str(artifact), "what came is not a jar"))
    return path


def _sentence(coordinate: str, cause: object) -> str:
    return (
        f"cannot download {coordinate} ({_short(cause)}): check the connection, "
        f"or set {CACHE_VARIABLE} to a directory with a filled cache"
    )


def _short(cause: object) -> str:
    text = " ".join(str(cause).split()) or type(cause).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."


# jgo writes a download straight to its final name. A killed process leaves half a file there,
# and the next call would take it for whole. So a marker names each file during its download.
_UNFINISHED = "unfinished"


def _drop_unfinished(repository: Path) -> None:
    for marker in (repository / _UNFINISHED).glob("*"):
        target = repository / marker.read_text()
        if target.is_file():  # an empty marker, of a full disk, names the repository itself
            target.unlink()
        marker.unlink()


def _resolver() -> Any:
    from jgo.maven import PythonResolver

    class MarkingResolver(PythonResolver):
        """Marks each file during its download."""

        def download(self, artifact: Artifact) -> Any:
            repository, target = artifact.context.repo_cache, artifact.cached_path
            marker = repository / _UNFINISHED / target.name
            marker.parent.mkdir(parents=True, exist_ok=True)
            try:
                marker.write_text(str(target.relative_to(repository)))
                return super().download(artifact)
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            finally:
                marker.unlink(missing_ok=True)

    return MarkingResolver()
