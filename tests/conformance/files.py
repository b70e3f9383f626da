"""Which scripts there are and where they lie.

Prometheus' own scripts are not part of this project: they are read from the folder that the environment variable
`QUARTERDECK_PROMQLTEST` names, or else from `../shared/promqltest` beside the project.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

from tests.conformance.language import parse
from tests.conformance.script import Script

VARIABLE: Final = "QUARTERDECK_PROMQLTEST"
PROJECT: Final = Path(__file__).resolve().parents[2]
OWN_FOLDER: Final = Path(__file__).resolve().parent / "scripts"

STABLE: Final = (
    "aggregators.test",
    "at_modifier.test",
    "collision.test",
    "functions.test",
    "histograms.test",
    "literals.test",
    "name_label_dropping.test",
    "native_histograms.test",
    "operators.test",
    "range_queries.test",
    "selectors.test",
    "staleness.test",
    "subquery.test",
    "trig_functions.test",
)
"""The scripts that must pass."""

EXPERIMENTAL: Final = {
    "duration_expression.test": "arithmetic in durations is experimental",
    "extended_vectors.test": "anchored and smoothed are experimental",
    "fill-modifier.test": "fill is experimental",
    "info.test": "info() is experimental",
    "limit.test": "limitk and limit_ratio are experimental",
    "start_timestamps.test": "start timestamps are experimental",
    "type_and_unit.test": "type and unit labels are experimental",
}
"""The scripts of what Prometheus has behind a flag; they must pass as well."""


def folder() -> Path:
    """Where Prometheus' scripts should be; they need not be there."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else PROJECT.parent / "shared" / "promqltest"


@cache
def read(path: Path) -> Script:
    """The script of a file; parsed once."""
    return parse(path.read_text(encoding="utf-8"), path.name)
