"""A project's files: ``kfetch.yml``, ``env/*.yml``, ``jobs/*.yml``, with strict checks.

    project = load(find(Path.cwd()), environment="prod")
    job = project.job("clicks")
    job.source_options()      the options for format("kfetch")

An unknown key or an unusable value is an error with file, line and a suggestion. The checks cover
the source's options too, and need neither a broker nor Spark. ``run/`` runs a job, ``supervise/``
keeps it running.

    yamlfile.py        YAML values with their line numbers, and ``${…}``
    field_types.py     types of keys: durations, options, cron expressions
    models.py          the keys of the three kinds of file
    trigger.py         when a job runs
    locations.py       paths and URIs of tables and checkpoints, as Hadoop reads them
    decode.py          ``source.decode``: a synonym for options of the source
    job.py             one job as a value: its file merged with the project's
    project.py         finds, reads, merges and checks the files
    mistakes.py        pydantic's errors as sentences
    functions.py       checks that ``module:function`` exists, without running it
    source_options.py  checks a job's options with the source's own parser
    merge_order.py     the columns that order the rows of a merge
    write_way.py       what of a job needs Spark for its rows; selection.py reads its SQL
    cross_checks.py    checks of all jobs together: ``after``, shared checkpoints and tables
    cluster_paths.py   local paths of a job whose tasks run on other machines
    snapshot.py        the files of a job as they were validated
    schema.py          JSON Schema for editors
    starter.py         writes a new project
"""

from kfetch_jobs.config.job import Job, TableLocation
from kfetch_jobs.config.models import JobFile, ProjectFile
from kfetch_jobs.config.project import PROJECT_FILE, Project, find, load, located

__all__ = [
    "PROJECT_FILE",
    "Job",
    "JobFile",
    "Project",
    "ProjectFile",
    "TableLocation",
    "find",
    "load",
    "located",
]
