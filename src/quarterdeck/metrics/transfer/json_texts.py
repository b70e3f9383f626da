"""Values as JSON texts in a column of strings.

Labels may hold bytes that are no text, as lone surrogates in Python's way (see `promql/syntax/quoting.py`). A column
of strings cannot: such a text is written with escapes alone, which are read like any others. Surrogates that stand
for bytes are all from the second half of their range, so that no two of them look like a pair.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from quarterdeck.metrics.arrow_arrays import Array, pa

_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ESCAPED: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def as_texts(values: Sequence[object]) -> Array:
    """A text for each value."""
    try:
        return pa.array([_PLAIN(value) for value in values], pa.string())
    except UnicodeEncodeError:
        return pa.array([_ESCAPED(value) for value in values], pa.string())


def from_texts(column: Array) -> list[Any]:
    """The values of which `as_texts` made a column; all are read at once, so that equal keys are one object."""
    return json.loads("[" + ",".join(column.to_pylist()) + "]")
