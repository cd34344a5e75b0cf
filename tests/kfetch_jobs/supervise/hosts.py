"""The hosts of a project with a shared state, each with a storage of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfetch.storage.lease import Sight
from kfetch_jobs.supervise.leadership import Lead, Shared
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
from tests.kfetch_jobs.projects import PROJECT
from tests.kfetch_jobs.stage import Stage


class Host(Stage):
    """A host of a project: its own storage, and a state that it shares."""

    def __init__(self, place: Path, state: str, spark: dict[str, str]) -> None:
        (place / "conf" / "jobs").mkdir(parents=True)
        lines = "".join(f"  {name}: '{value}'\n" for name, value in spark.items())
        text = PROJECT.replace("  spark.master: local[2]\n", f"  spark.master: local[2]\n{lines}")
        more = f"sharedState: {state}\nsharedDirectories: [{place.parent}]\n"
        (place / "conf" / "kfetch.yml").write_text(more + text)
        super().__init__(place)

    @property
    def shared(self) -> Shared:
        shared = Shared.of(self.project)
        assert shared is not None
        return shared

    @contextmanager
    def lead(self) -> Iterator[Lead]:
        with self.shared.leading(_no_wait) as lead:
            yield lead

    @contextmanager
    def supervisor(self) -> Iterator[Supervisor]:
        """A supervisor that leads. It ends with the block as by SIGKILL, but for its lease."""
        project = self.project
        with (
            hold_supervisor_lock(project.storage),
            self.lead() as lead,
            Supervisor.start(project, self.command, lead) as supervisor,
        ):
            try:
                yield supervisor
            finally:
                running = (supervised.process for supervised in supervisor._jobs.values())
                self._left += [process.child for process in running if process and process.child]


def _no_wait(sight: Sight) -> None:
    raise AssertionError(f"somebody leads: {sight}")


def write_jobs(hosts: list[Host], name: str, text: str, script: str) -> None:
    for host in hosts:
        host.job(name, text, script)
