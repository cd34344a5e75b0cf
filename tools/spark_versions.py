"""The table of versions of Spark in docs/reference/spark-versions.md."""

from __future__ import annotations

from integration.sparks import VERSIONS, Feature, has


def table() -> str:
    """Returns a row for each feature that not every version has, and why earlier ones lack it."""
    head = f"| | {' | '.join(VERSIONS)} | why |\n|{'---|' * (len(VERSIONS) + 2)}\n"
    rows = []
    for feature in Feature:
        title = feature.name.replace("_", " ").lower()
        cells = ["yes" if has(feature, version) else "no" for version in VERSIONS]
        reason = feature.value.reason
        rows.append(f"| {title} | {' | '.join(cells)} | {reason[0].upper()}{reason[1:]}. |\n")
    return head + "".join(rows)
