"""Which tests prove which feature. A test belongs to the first feature that names it."""

from __future__ import annotations

from dataclasses import dataclass

_SPARK, _FAULTS = "integration/spark", "integration/faults"
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
        (f"{_SPARK}/test_same_rows.py", "integration/contract"),
        (f"{_SPARK}/test_same_rows.py", "integration/contract/test_options.py"),
    ),
    FeatureRow(
        "kill",
        "kill -9 with state",
        (f"{_FAULTS}/test_killed_state.py",),
        (f"{_FAULTS}/test_killed_state.py",),
    ),
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
        (f"{_SPARK}/test_batch.py", f"{_SPARK}/test_facts.py"),
        (f"{_SPARK}/test_facts.py",),
    ),
    FeatureRow(
        "typed",
        "typed values",
        ("integration/formats",),
        ("integration/formats/test_stream.py::test_the_rows_are_those_of_from_json",),
    ),
    FeatureRow(
        "secured",
        "TLS + SASL",
        ("integration/security/test_modes.py::test_through_spark",),
        ("integration/security/test_modes.py::test_through_spark[SASL_SSL-SCRAM-SHA-512]",),
    ),
    FeatureRow("connect", "Spark Connect", (f"{_SPARK}/test_connect.py",)),
    FeatureRow(
        "migration", "to the connector and back", ("integration/migration/test_migration.py",)
    ),
    FeatureRow("faults", "other faults", (_FAULTS,)),
)


def feature_of(test: str) -> FeatureRow | None:
    """Returns the feature to which a test belongs; None for tests of no feature."""
    return next((one for one in FEATURES if test.startswith(one.tests)), None)
