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
    supervising.add(app)
    status.add(app)
    plan.add(app)
    app.add_typer(offsets.app, name="offsets", short_help="Show or move a job's offsets.")
    app.command(short_help="Check what this machine lacks for jobs.")(doctor.doctor)
    app.add_typer(broker, name="broker", short_help="Run a Kafka on this machine, to try things.")
