"""The supervisor's reply to an order: whether it carried the order out, and why not."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kfetch_jobs.config import Job
from kfetch_jobs.config.snapshot import changed_files
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.util.wording import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReply:
    """The reply to one order. The database keeps it as text."""

    message: str = ""
    """Why the supervisor refuses the order; or a notice about an order that it carried out."""
    exit_code: int = 0
    """0: the order was carried out. Else the exit code for the command that gave it."""

    def to_text(self) -> str:
        """Returns the text for the database."""
        return json.dumps({"said": self.message, "exit_code": self.exit_code})

    @classmethod
    def from_text(cls, text: str) -> OrderReply:
        """Returns the reply of a text in the database.

        A supervisor of an old kfetch writes the bare sentence of a refusal, or nothing.
        """
        if text.startswith("{"):
            fields = json.loads(text)
            return cls(message=fields["said"], exit_code=fields["exit_code"])
        return cls(message=text, exit_code=1 if text else 0)


TOO_LATE = OrderReply(
    message="the supervisor was busy for too long, or the clocks of two hosts differ: it does not "
    "carry the order out: give it again",
    exit_code=1,
)
"""The reply to an order whose end has passed. Its command may have reported a failure."""


def outdated_file_notice(job: Job, state: JobState) -> str:
    """Returns a notice if the job's files have changed since they were validated; else no text.

    The project's file and its environment's are files of the job too.
    """
    began_s = state.started_s
    if state.phase is not Phase.RUNNING or began_s is None or not changed_files(job):
        return ""
    return (
        f"{job.name} runs with its file of {utc(began_s)}, which has changed since: "
        f"kfetch restart {job.name} takes the new one"
    )
