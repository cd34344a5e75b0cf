"""What a waiting supervisor has seen of a checkpoint's lease, for the run that it may start.

A run that takes over a lease must see it unchanged for four thirds of a lease. A supervisor that
waits for the lead begins to look before it leads. So its runs do not wait a second time.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kfetch.storage.lease import Sight, parse
from kfetch.storage.processes import boottime
from kfetch_jobs.checkpoints.location import lease_file
from kfetch_jobs.config import Job
from kfetch_jobs.util.files import read_json, write_json


def _note(job: Job) -> Path:
    return job.directory / "lease-seen.json"


def note_lease(job: Job, *, request_s: float) -> None:
    """Note the version of the lease of a job's checkpoint, and when it was there. One request.

    ``request_s``: how long that may take. Raises OSError if the store fails.
    """
    file = lease_file(job, request_s=request_s)
    if file and (version := file.read()):
        job.directory.mkdir(parents=True, exist_ok=True)
        content = version.content.decode(errors="replace")
        write_json(_note(job), {"token": version.token, "content": content, "at": boottime()})


def noted_lease(job: Job) -> Sight | None:
    """Returns what a supervisor of this machine has seen of the lease; None without a note.

    The time counts since the machine's start. A note from before that looks younger than it is, or
    is of no use.
    """
    note = read_json(_note(job))
    with suppress(KeyError, TypeError, ValueError):
        lease = parse(str(note["content"]).encode())
        if lease and (at := float(note["at"])) <= boottime():
            return Sight(str(note["token"]), lease, at)
    return None
