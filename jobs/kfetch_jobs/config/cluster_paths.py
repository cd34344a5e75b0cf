"""Local paths of a job whose tasks run on other machines, or that other hosts run, too.

Each machine would write its part of a table into a directory of its own. Another host would not
find the checkpoint, and begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfetch.storage.locations import local_path
from kfetch_jobs.config.job import Job
from kfetch_jobs.config.yamlfile import display


def is_cluster(master: str) -> bool:
    """Returns whether tasks run on other machines, by Spark's ``spark.master``."""
    return not master.startswith("local")


def cluster_path_mistakes(job: Job, master: str, *, several_hosts: bool = False) -> Iterator[str]:
    """Yields a sentence for each local path of the job that other machines may not see.

    ``several_hosts``: whether other hosts may run the job.
    """
    if not is_cluster(master) and not several_hosts:
        return
    who = "spark.master runs tasks on" if is_cluster(master) else "sharedState is for jobs on"
    if several_hosts and job.file.singleHost:
        yield (
            f"{job.document.file_line(('singleHost',))}: singleHost: true says that no other host "
            "runs the job, and sharedState lets other hosts run it: remove one of them"
        )
    dead_letters = job.dead_letters.path if job.dead_letters else None
    for at, text in (
        (("checkpoint",), job.checkpoint),
        (("sink", "path"), job.target.path),
        (("sink", "deadLetters", "path"), dead_letters),
    ):
        path = local_path(text, job.spark) if text else None
        if path is not None and not any(map(path.is_relative_to, job.shared_directories)):
            yield (
                f"{job.document.file_line(at)}: {'.'.join(at)} {path} is a directory of this "
                f"machine, and {who} other machines: name a URI of a store, or "
                "list a directory that all of them mount under sharedDirectories in "
                f"{display(job.shared[-1].path)}"
            )
