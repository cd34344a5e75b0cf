"""What the caller of the demo can choose, and the limits that are fixed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kfetch_jobs import config

BUNDLED_PROJECT = Path(__file__).resolve().with_name("project") / "kfetch.yml"
"""The project that comes with this package. It works from an installed wheel, in any directory."""
JOB = "clicks"


def project_file(project: Path | None, job: str | None, directory: Path) -> Path:
    """Returns the project file whose job the demo runs.

    Without ``project`` and ``job`` it is the bundled one, also inside a project. ``job`` alone
    names a job of the project in ``directory`` or above. Raises ConfigError if there is none.
    """
    if project is not None:
        return project.absolute()
    return BUNDLED_PROJECT if job is None else config.find(directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices for one demo."""

    project: Path
    """The project file."""
    job: str = JOB
    """The job of that project."""
    seconds: float = 40
    """How long the producer runs."""
    rate: int = 20_000
    """Events per second."""
    keep: bool = False
    """Whether Kafka's data, the table and the logs stay on disk."""
    open_page: bool = False
    """Whether the demo ends with the job under a supervisor and its page in the browser."""
    partitions: int = 12
    stall_timeout_s: float = 120
    """The demo fails if it makes no progress for so long. Machines differ, but a hang must end."""

    @property
    def events(self) -> int:
        """The number of events that the producer sends."""
        return int(self.rate * self.seconds)

    @property
    def bundled(self) -> bool:
        """Whether the job is the demo's own."""
        return self.project == BUNDLED_PROJECT

    def variables(self, bootstrap: str, storage: Path) -> dict[str, str]:
        """Returns the environment variables that point the job to the demo's Kafka and storage."""
        variables = {"KFETCH_BOOTSTRAP": bootstrap, "KFETCH_STORAGE": str(storage)}
        # The bundled project has no environments, whatever the user's shell names.
        return variables | {"KFETCH_ENV": ""} if self.bundled else variables
