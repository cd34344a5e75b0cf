"""What the demo needs of this machine. It is checked first, because the demo takes two minutes.

Nothing here starts a broker or Spark, and nothing is downloaded, except by ``download_jars``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kfetch_jobs import config, doctor
from kfetch_jobs.config import Job, Project
from kfetch_jobs.demo.settings import Settings
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.jvm.maven import CACHE_VARIABLE, cache_directory, is_cached, jars
from kfetch_jobs.jvm.spark import DELTA
from kfetch_jobs.kafka.settings import KAFKA

_MIB = 1 << 20
_RUN_BYTES = 256 * _MIB
"""What Kafka, Spark and the logs need without any event; measured: 15 MiB, and sparse files."""
_EVENT_BYTES = 300
"""What one event needs in Kafka's log and in the table; measured: 120 bytes."""
_CACHE_BYTES = 256 * _MIB
"""What the jars of Kafka and Delta need; measured: 160 MiB."""


def problems(settings: Settings) -> list[str]:
    """Returns a sentence for each thing that the demo lacks: what it is, and what to do."""
    return [
        *_findings(),
        *_disk(settings),
        *([] if settings.bundled else _job(settings)),
    ]


def download_jars(announce: Callable[[str], None]) -> None:
    """Download the jars of Kafka and Delta, unless the cache has them. Raises MavenError."""
    if not _jars_cached():
        announce(f"downloading Kafka and Delta to {cache_directory()}, once; a minute or two …")
    jars(*KAFKA)
    jars(DELTA)


def _jars_cached() -> bool:
    return is_cached(*KAFKA) and is_cached(DELTA)


def _findings() -> Iterator[str]:
    """Java, and the Python packages at the versions that kfetch names."""
    java = doctor.java()
    if java.grade is doctor.Grade.FAIL:
        yield f"{java.text}: {java.advice}"
    for package in doctor.installed_packages():
        if package.grade is doctor.Grade.FAIL:
            yield f"{package.subject} {package.text}: {package.advice}"


def _disk(settings: Settings) -> Iterator[str]:
    needed = _RUN_BYTES + settings.events * _EVENT_BYTES
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError as cause:
        yield f"no temporary directory can be written ({cause.strerror}): set TMPDIR to one"
    else:
        yield from _free(temporary, needed, "make room, or set TMPDIR to another disk")
    if not _jars_cached():
        advice = f"make room, or set {CACHE_VARIABLE} to another disk"
        yield from _unwritable(cache_directory(), f"set {CACHE_VARIABLE} to another directory")
        yield from _free(_existing(cache_directory()), _CACHE_BYTES, advice)


def _free(directory: Path, needed: int, advice: str) -> Iterator[str]:
    free = shutil.disk_usage(directory).free
    if free < needed:
        sizes = f"{free // _MIB:,} MiB free, and the demo needs {needed // _MIB:,} MiB"
        yield f"{directory} has {sizes}: {advice}"


def _unwritable(directory: Path, advice: str) -> Iterator[str]:
    """A sentence unless files can be made in the directory, or in the nearest one that exists."""
    existing = _existing(directory)
    try:
        with tempfile.TemporaryFile(dir=existing):
            return
    except OSError as cause:
        yield f"{existing} cannot be written ({cause.strerror}): {advice}"


def _existing(directory: Path) -> Path:
    return next(path for path in (directory, *directory.parents) if path.exists())


def _job(settings: Settings) -> Iterator[str]:
    """A job of the user's own must read and write the demo's Kafka and storage, and no other."""
    bootstrap, storage = "127.0.0.1:1", Path("/kfetch-demo-storage")  # nobody makes it
    try:
        variables = settings.variables(bootstrap, storage)
        project = config.load(settings.project, os.environ | variables)
        job = project.job(settings.job)
    except ConfigError as error:
        yield from error.mistakes
        return
    topics = job.file.source.subscribe if job.file.source else None
    if topics is None or "," in topics:
        yield f"the demo fills one topic: give job {job.name} one in source.subscribe"
        return
    yield from _source(job, bootstrap)
    yield from _places(job, storage)
    if job.file.trigger.finite:
        yield f"the demo kills a running job: give job {job.name} the trigger processingTime"
    if settings.open_page:
        yield from _other_jobs(project, job)


def _other_jobs(project: Project, job: Job) -> Iterator[str]:
    """They may read another Kafka, and write into tables that are no demo."""
    valid, _ = project.jobs_and_mistakes()
    names = (name for name in project.jobs() if name not in valid or valid[name].file.enabled)
    if others := ", ".join(name for name in names if name != job.name):
        yield (
            "the demo with --open would run every enabled job of the project, also "
            f"{others}: leave out --open, or write enabled: false into the files of these"
        )


def _source(job: Job, bootstrap: str) -> Iterator[str]:
    options = {name.lower(): value for name, value in job.source_options().items()}
    if options["kafka.bootstrap.servers"] != bootstrap:
        yield (
            f"job {job.name} would read another Kafka than the demo's: write "
            "${env:KFETCH_BOOTSTRAP} for the bootstrap.servers of its cluster"
        )
    if options.get("startingoffsets", "").lower() != "earliest":
        yield f"job {job.name} would skip the first events: set startingOffsets: earliest"


def _places(job: Job, storage: Path) -> Iterator[str]:
    places = [str(job.directory), job.checkpoint, job.target.path]
    places += [job.dead_letters.path] if job.dead_letters else []
    if not all(place and Path(place).is_relative_to(storage) for place in places):
        yield (
            f"job {job.name} would write outside of the demo's directory: write "
            "${env:KFETCH_STORAGE} for the project's storage, and ${storage} in the job's paths"
        )
