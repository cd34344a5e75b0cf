"""What a supervisor answers to an order: whether it was done, and what else there is to know."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from kfetch_jobs.config import Job
from kfetch_jobs.supervise.state_machine import JobState, Phase

__all__ = ["OrderReply", "outdated_file_notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReply:
    """To one order. The database has it as text."""

    said: str = ""
    """Why the order can't be done; of one that was, what its giver should know."""
    exit_code: int = 0
    """0: it was done; else the code with which a command ends that asked for it."""

    def to_text(self) -> str:
        """For the database."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> OrderReply:
        """From the database. A supervisor that has been up since before an update wrote the
        sentence of a refusal alone, or nothing."""
        if text.startswith("{"):
            return cls(**json.loads(text))
        return cls(said=text, exit_code=1 if text else 0)


def outdated_file_notice(job: Job, state: JobState) -> str:
    """That a job runs with a file which has changed since; empty if it has not.

    Told by the time of the inode's last change: unlike the file's own time it also moves when an
    older file is put in place, and nobody can set it.
    """
    began_s = state.started_s
    if state.phase is not Phase.RUNNING or began_s is None:
        return ""
    if job.document.path.stat().st_ctime <= began_s:
        return ""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began_s))
    return (
        f"{job.name} runs with its file of {began}, which has changed since: "
        f"kfetch restart {job.name} takes the new one"
    )
