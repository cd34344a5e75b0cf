"""Says which columns a topic has by a schema registry, and which records of a sample fit them."""

from __future__ import annotations

from collections.abc import Mapping

from kfetch.admin.samples import MISFITS_MAX, Misfit, Record, SampleReport

_NAMES = ("value", "key", "schema.registry.", "kfetch.registry.")


def uses_registry(options: Mapping[str, str], *, keys: bool = False) -> bool:
    """Returns whether the options name a schema registry for values, or for keys."""
    name = "keyregistry" if keys else "valueregistry"
    return name in {option.lower() for option in options}


def for_sample(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with which records are read as bytes."""
    return {name: text for name, text in options.items() if not name.lower().startswith(_NAMES)}


def report(
    options: Mapping[str, str], topic: str, records: list[Record], *, keys: bool = False
) -> SampleReport:
    """Returns the columns of the reader's schema, and which records fit it.

    ``options``: those of a source, with a registry. Raises OptionError, RegistryUnavailable and
    RegistryRefused.
    """
    import pyarrow as pa

    from kfetch.formats.columns.ddl import fields_text
    from kfetch.formats.face import value_type, with_types
    from kfetch.formats.registry.headers import SchemaUnavailable
    from kfetch.formats.typed_values import column_decoder
    from kfetch.spark.options import parse

    parsed = parse({**options, "subscribe": topic}, batch=True)
    resolved = with_types(parsed).typed_columns
    (typed,) = (each for each in resolved if each.column == ("key" if keys else "value"))
    decoder = column_decoder(typed)
    values = [record.value for record in records]
    try:
        corrupt = decoder.decode_column(pa.array(values, pa.binary())).corrupt.tolist()
    except SchemaUnavailable as failure:
        raise failure.cause from None
    problems = [(at, decoder.problem(values[at] or b"")) for at in corrupt]
    misfits = [
        Misfit(records[at].tp.partition, records[at].offset, problem.what, problem.at)
        for at, problem in problems
        if problem is not None
    ]
    empty = sum(value is None for value in values)
    return SampleReport(
        records=len(records),
        schema=fields_text(value_type(typed)),
        fits=len(records) - len(corrupt) - empty,
        empty=empty,
        confluent=0,
        misfits=len(corrupt),
        first_misfits=tuple(misfits[:MISFITS_MAX]),
        unknown_fields=(),
    )
