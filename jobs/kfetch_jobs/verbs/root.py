"""Every verb of jobs, mounted on the command ``kfetch`` (the entry point of this distribution).

What verbs drive is imported when one is used, so that ``kfetch --help`` is quick.
"""

from __future__ import annotations

import typer

from kfetch_jobs.verbs import demo, doctor, files, offsets, plan, running, status, supervising
from kfetch_jobs.verbs.broker import app as broker


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command(short_help="Kill a job midway, and count every event.")(demo.demo)
    app.command(short_help="Make a new project.")(files.init)
    app.command(short_help="Check every file of the project.")(files.validate)
    app.command(short_help="Print the JSON Schema of the files, for editors.")(files.schema)
    app.command(short_help="Run one job in this terminal.")(running.run)
    app.command(short_help="Keep all jobs running.")(supervising.up)
    app.command(short_help="Stop the supervisor and all jobs.")(supervising.down)
    app.command(short_help="Run a job now, and keep it running.")(supervising.start)
    app.command(short_help="Stop a job until you start it.")(supervising.stop)
    app.command(short_help="Stop a job, and run it again at once.")(supervising.restart)
    app.command(short_help="Stop a job until you resume it.")(supervising.pause)
    app.command(short_help="Run a paused job again.")(supervising.resume)
    app.command("list", short_help="List the jobs that the project's files describe.")(
        status.list_jobs
    )
    app.command(short_help="Show the state of each job.")(status.status)
    app.command(short_help="Show the last runs of jobs, and how they ended.")(status.history)
    app.command(short_help="Print the log of a job or of the supervisor.")(status.logs)
    app.command(short_help="Show what a job would read now, and whether it can.")(plan.plan)
    app.command(short_help="Show how far jobs are behind Kafka's log ends.")(plan.lag)
    app.add_typer(offsets.app, name="offsets", short_help="Show or move a job's offsets.")
    app.command(short_help="Check what this machine lacks for jobs.")(doctor.doctor)
    app.add_typer(broker, name="broker", short_help="Run a Kafka on this machine, to try things.")
