"""Dead letters as DataFrames: apart from good records, and beside the rows of a transform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LETTER = "_dead_letter"
"""The column with error, key and value of a record that can't be decoded; else null."""
_ROW = "_row"
_REGISTRIES = {"valueregistry", "keyregistry"}


def good_records(frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Returns the streams without their dead letters."""
    return {view: _good(frame) for view, frame in frames.items()}


def _good(frame: DataFrame) -> DataFrame:
    if LETTER not in frame.columns:
        return frame
    return frame.where(f"{LETTER} IS NULL").drop(LETTER)


def check_no_registry(job: Job) -> None:
    """Raises ConfigError if a schema registry decides which records of a job can be decoded.

    Beside state, Spark reads Kafka for the rows and again for the dead letters. A registry that
    learns of a schema in between would leave a record out of both tables.
    """
    used = _REGISTRIES & {name.lower() for name in job.source_options()}
    if used:
        raise ConfigError(
            f"{job.document.file_line(('sink', 'deadLetters'))}: a transform with state can't have "
            "dead letters if the source has a schema registry: write the decoded records to a "
            "table first, and let another job read that table"
        )


def places_of(frames: Iterable[DataFrame]) -> DataFrame:
    """Returns the place of each record, with the error and the raw bytes of a dead letter.

    These are the columns of the table of dead letters. A good record's error is null.
    """
    parts = [
        frame.selectExpr(
            *("topic", "partition", "offset", "timestamp"),
            *(f"{LETTER}.{name} AS {name}" for name in ("error", "key", "value")),
        )
        for frame in frames
        if LETTER in frame.columns
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def dead_letters_among(places: DataFrame) -> DataFrame:
    """Returns the dead letters among the places of records."""
    return places.where("error IS NOT NULL")


def rows_and_places(rows: DataFrame, places: DataFrame) -> DataFrame:
    """Returns one stream of rows and places of records, so that one micro-batch has both."""
    from pyspark.sql import functions as f

    both = rows.select(f.struct("*").alias(_ROW))
    return both.unionByName(places.select(f.struct("*").alias(LETTER)), allowMissingColumns=True)


def split_rows_and_places(batch: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns the rows and the places of a micro-batch of such a stream."""
    return (
        batch.where(f"{_ROW} IS NOT NULL").select(f"{_ROW}.*"),
        batch.where(f"{LETTER} IS NOT NULL").select(f"{LETTER}.*"),
    )
