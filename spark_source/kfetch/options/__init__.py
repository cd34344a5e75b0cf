"""Options: from the text that a user wrote to one frozen value, or one clear error.

``catalogue`` lists every option and its treatment. ``converters`` turn one text into one value.
``subscription`` reads the options that name brokers, topics and partitions. ``bounds`` reads those
that say where a query starts, and where a batch read ends. ``parsing`` reads all options and
returns the values of ``values``. Nothing here connects.
"""

from kfetch.options.parsing import parse
from kfetch.options.values import (
    EARLIEST,
    LATEST,
    OFFSET_MAX,
    PARTITION_MAX,
    Ago,
    AvroColumn,
    Bound,
    FetchOptions,
    JsonColumn,
    NetworkOptions,
    Place,
    ProtobufColumn,
    SourceOptions,
    Subscription,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "OFFSET_MAX",
    "PARTITION_MAX",
    "Ago",
    "AvroColumn",
    "Bound",
    "FetchOptions",
    "JsonColumn",
    "NetworkOptions",
    "Place",
    "ProtobufColumn",
    "SourceOptions",
    "Subscription",
    "parse",
]
