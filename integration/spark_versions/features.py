"""Which tests prove which feature. A test belongs to the first feature that names it."""

from __future__ import annotations

from dataclasses import dataclass

_SPARK, _FAULTS = "integration/spark", "integration/faults"
_CONTRACT, _FORMATS = "integration/contract", "integration/formats"
_CASES = ("mixed_content", "options", "planning", "starting_times")
_SOURCE = ("check", "columns", "life", "positions", "refusals", "source", "starting_positions")
_AVAILABLE_NOW = f"{_SPARK}/test_triggers.py::test_available_now"


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A row of the printed table, and the starts of the names of its tests."""

    key: str
    """Its name for ``--only``."""
    title: str
    tests: tuple[str, ...]
    short: tuple[str, ...] = ()
    """The choice of ``--short``."""

    def files(self, short: bool) -> list[str]:
        """Returns the files and folders with its tests."""
        return [test.split("::")[0] for test in (self.short if short else self.tests)]


FEATURES = (
    FeatureRow(
        "rows",
        "rows equal to the connector's",
        (f"{_SPARK}/test_same_rows.py",),
        (f"{_SPARK}/test_same_rows.py",),
    ),
    FeatureRow(
        "contract",
        "the connector's contract",
        (*(f"{_CONTRACT}/test_{name}.py" for name in _CASES), f"{_SPARK}/test_connector_cases.py"),
        (f"{_CONTRACT}/test_options.py",),
    ),
    # It starts Spark three times, so the short tests leave it to the integration tests.
    FeatureRow("kill", "kill -9 with state", (f"{_FAULTS}/test_killed_state.py",)),
    FeatureRow("truncation", "truncation", (f"{_FAULTS}/test_truncation.py",)),
    FeatureRow(
        "recreated",
        "re-created topic",
        (f"{_FAULTS}/test_broker.py::test_a_recreated_topic",),
        (f"{_FAULTS}/test_broker.py::test_a_recreated_topic_is_an_error",),
    ),
    FeatureRow(
        "available-now",
        "AvailableNow",
        (_AVAILABLE_NOW,),
        (f"{_AVAILABLE_NOW}_after_a_crash_with_new_partitions",),
    ),
    FeatureRow(
        "limits",
        "limits",
        (f"{_SPARK}/test_triggers.py", f"{_SPARK}/test_versions.py"),
        (f"{_SPARK}/test_triggers.py::test_least_and_most_together",),
    ),
    FeatureRow(
        "batch",
        "batch read",
        tuple(
            f"{_SPARK}/test_{name}.py" for name in ("batch", "batch_sql", "batch_tasks", "facts")
        ),
        (f"{_SPARK}/test_facts.py",),
    ),
    FeatureRow(
        "avro",
        "Avro values",
        (f"{_FORMATS}/test_avro.py", f"{_FORMATS}/test_avro_stream.py"),
    ),
    FeatureRow(
        "protobuf",
        "Protobuf values",
        tuple(f"{_FORMATS}/test_protobuf{name}.py" for name in ("_values", "", "_stream")),
    ),
    FeatureRow("registry", "schemas of a registry", (f"{_FORMATS}/test_registry_stream.py",)),
    FeatureRow(
        "json",
        "JSON values, dead letters",
        (_FORMATS,),
        (f"{_FORMATS}/test_stream.py::test_the_rows_are_those_of_from_json",),
    ),
    # The short tests leave it to the integration tests: a log-in is the same with each Spark.
    FeatureRow(
        "secured", "TLS + SASL", ("integration/security/test_modes.py::test_through_spark",)
    ),
    FeatureRow(
        "straight",
        "straight to Delta, without its JAR",
        ("integration/running/test_without_delta.py",),
        ("integration/running/test_without_delta.py",),
    ),
    FeatureRow("connect", "Spark Connect", (f"{_SPARK}/test_connect.py",)),
    FeatureRow(
        "migration", "to the connector and back", ("integration/migration/test_migration.py",)
    ),
    FeatureRow("faults", "other faults", (_FAULTS,)),
    FeatureRow(
        "source",
        "starts, columns, errors",
        tuple(f"{_SPARK}/test_{name}.py" for name in _SOURCE),
    ),
)


def feature_of(test: str) -> FeatureRow | None:
    """Returns the feature to which a test belongs; None for tests of no feature."""
    return next((one for one in FEATURES if test.startswith(one.tests)), None)
