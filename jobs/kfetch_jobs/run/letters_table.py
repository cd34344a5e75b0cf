"""The table of dead letters: each record is in it or in the job's table, and in one of them alone.

Dead letters commit before rows. If a run ends between the two, the next run repeats the
micro-batch, perhaps with another decoding. Then it replaces the letters. If the rows are committed
too, it writes nothing, because those letters belong to those rows.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run.batch_counts import Letters
from kfetch_jobs.run.dead_letter_frames import dead_letters_among
from kfetch_jobs.run.tables import Check, append, existing_table, has_batch
from kfetch_jobs.util.wording import counted

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame

log = logging.getLogger("kfetch_jobs.run")

_EXAMPLE_MAX = 500  # characters
_PLACE = ("topic", "partition", "offset", "timestamp")
"""What tells records apart. An earlier topic's record at the same offset has another time."""
_SAME = " AND ".join(f"t.{name} <=> s.{name}" for name in _PLACE)


def write_letters(job: Job, places: DataFrame, query: str, number: int, check: Check) -> Letters:
    """Append the dead letters of a micro-batch to their table, and return their number.

    ``check`` raises an error if this process must not write any more.
    """
    assert job.dead_letters is not None
    letters = dead_letters_among(places)
    found = _report(job, letters, number)
    if found.records:
        check()
        append(job.dead_letters, letters, query, number)
    return found


def repeat_letters(
    job: Job,
    places: DataFrame,
    query: str,
    number: int,
    check: Check,
    *,
    stateful: bool,
) -> Letters:
    """Write the dead letters of a micro-batch that another run may have written in part.

    ``places``: each record of the micro-batch, as ``places_of`` returns them. Raises ConfigError if
    the state would get other records than the tables have.
    """
    assert job.dead_letters is not None
    spark = places.sparkSession
    table = existing_table(spark, job.dead_letters)
    if has_batch(existing_table(spark, job.target), query, number):
        if stateful:
            _check_same(table, places, number)
        log.info("micro-batch %d is in %s already, so its letters stay", number, job.target)
        return _report(job, dead_letters_among(places), number)
    if table is None or not has_batch(table, query, number):
        return write_letters(job, places, query, number, check)
    check()
    _replace(table, places)
    return _report(job, dead_letters_among(places), number)


def _report(job: Job, letters: DataFrame, number: int) -> Letters:
    records = int(letters.count())
    if not records:
        return Letters()
    (first,) = letters.select("topic", "partition", "offset", "error").take(1)
    return log_letters(job, number, records, first)


def log_letters(job: Job, number: int, records: int, first: Any) -> Letters:
    """Log the dead letters of a micro-batch, and return their number with the first one."""
    example = f"{first.topic}-{first.partition}, offset {first.offset}: {first.error}"
    example = job.redacted(example[:_EXAMPLE_MAX])
    message = "batch %d: %s in the dead letters, %s, cannot be decoded; one is %s"
    log.warning(message, number, counted(records, "record"), job.dead_letters, example)
    return Letters(records, example)


def _replace(table: DeltaTable, places: DataFrame) -> None:
    """Give the table the present letters of these records, in one commit."""
    values = {name: f"s.{name}" for name in places.columns}
    merging = table.alias("t").merge(places.alias("s"), _SAME)
    merging = merging.whenMatchedDelete("s.error IS NULL")
    merging = merging.whenMatchedUpdate("NOT t.error <=> s.error", {"error": "s.error"})
    merging.whenNotMatchedInsert("s.error IS NOT NULL", values).execute()


def _check_same(table: DeltaTable | None, places: DataFrame, number: int) -> None:
    """Raises ConfigError if the table has other letters of these records than they have now."""
    from pyspark.sql import functions as f

    if table is None:
        differ = dead_letters_among(places)
    else:
        both = places.alias("s").join(table.toDF().alias("t"), f.expr(_SAME), "left")
        differ = both.where("(s.error IS NULL) = (t.offset IS NOT NULL)")
    if not differ.isEmpty():
        raise ConfigError(
            f"micro-batch {number} was written with another decoding, and the state would get "
            "other records than the tables have: run the job once as it was before, and then "
            "change it; or give it a new checkpoint and new tables, with sink.repeatRows: true"
        )
