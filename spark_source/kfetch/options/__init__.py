"""Options: from the text that a user wrote to one frozen value, or one clear error.

``catalogue`` lists every option and its treatment. ``converters`` turn one text into one value.
``subscription`` reads the options that name topics, partitions and offsets. ``parsing`` reads all
options and returns the values of ``values``. Nothing here connects.
"""

from kfetch.options.parsing import parse
from kfetch.options.subscription import starting_offsets
from kfetch.options.values import (
    EARLIEST,
    LATEST,
    OFFSET_MAX,
    PARTITION_MAX,
    FetchOptions,
    NetworkOptions,
    SourceOptions,
    StartingOffsets,
    Subscription,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "OFFSET_MAX",
    "PARTITION_MAX",
    "FetchOptions",
    "NetworkOptions",
    "SourceOptions",
    "StartingOffsets",
    "Subscription",
    "parse",
    "starting_offsets",
]
