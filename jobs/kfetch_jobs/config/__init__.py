"""What a project and its jobs are: ``kfetch.yml``, ``env/*.yml``, ``jobs/*.yml``, strictly checked.

    project = load(find(Path.cwd()), environment="prod")
    job = project.job("clicks")
    job.source_options()      what format("kfetch") gets

A key nobody knows and a value that cannot be used are errors with file, line and a suggestion, and
so are the source's options: all of it is found without a broker and without Spark.
Running a job is ``run.py``'s, keeping it running ``supervise``'s.

    yamlfile.py   YAML whose values know their lines, and ``${…}``
    values.py     durations, options, cron expressions
    models.py     the keys of the three kinds of file
    trigger.py    when a job runs
    mistakes.py   pydantic's findings as sentences
    ddl.py        fields in Spark's DDL
    functions.py  whether ``module:function`` exists, without running it
    sources.py    what the source says of its options
    whole.py      what only all jobs together can get wrong
    project.py    the files of a project, read and merged
    schema.py     JSON Schema for editors
"""

from kfetch_jobs.config.models import JobFile, ProjectFile
from kfetch_jobs.config.project import PROJECT_FILE, Job, Place, Project, find, load

__all__ = ["PROJECT_FILE", "Job", "JobFile", "Place", "Project", "ProjectFile", "find", "load"]
