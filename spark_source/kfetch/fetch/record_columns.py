"""The columns that the record decoder builds for a query."""

from __future__ import annotations

from kfetch.options import SourceOptions
from kfetch.options.columns import DEAD_LETTER
from kfetch.records import Columns


def record_columns(options: SourceOptions) -> Columns:
    """Returns the columns of a query without that of dead letters, which follows from them."""
    includes = options.includes
    return Columns(
        headers=includes.headers,
        headers_as_map=includes.headers_as_map,
        leader_epoch=includes.leader_epoch,
        serialized_sizes=includes.serialized_sizes,
        names=tuple(column.name for column in options.columns if column.name != DEAD_LETTER),
        strings=tuple(column.name for column in options.delivered if column.is_decoded),
    )
