"""The words that the maker of queries chooses from: functions, operators, durations, numbers."""

from typing import Final

MAPS: Final = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg", "exp", "floor", "ln",
    "log10", "log2", "rad", "sgn", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
"""From a vector to a vector, each value by itself."""

WHOLE: Final = frozenset({"ceil", "floor", "sgn"})
"""Of the maps, those that answer whole numbers."""

DATES: Final = (
    "day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year",
)  # fmt: skip

COUNTER_FUNCTIONS: Final = ("rate", "increase", "irate")
"""Those that take a falling value for a reset."""

EXTRAPOLATING: Final = frozenset({"rate", "increase"})

RANGE_FUNCTIONS: Final = (
    "avg_over_time", "changes", "count_over_time", "delta", "deriv", "idelta", "last_over_time", "max_over_time",
    "min_over_time", "present_over_time", "resets", "stddev_over_time", "stdvar_over_time", "sum_over_time",
    "absent_over_time", "quantile_over_time", "predict_linear", "double_exponential_smoothing",
)  # fmt: skip

KEEP_DISTINCT: Final = frozenset({"avg_over_time", "last_over_time", "max_over_time", "min_over_time"})
"""Of several series with distinct values these are distinct too."""

PICK: Final = frozenset({"last_over_time", "max_over_time", "min_over_time"})
"""These answer a value that was there."""

WHOLE_RANGE: Final = frozenset({"changes", "count_over_time", "present_over_time", "resets", "absent_over_time"})

AGGREGATIONS: Final = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar")
SAFE_AGGREGATIONS: Final = ("sum", "avg", "count", "min", "max", "group")
"""Without those of which 2.42 makes something else out of infinities, see known.py."""
SPREADS: Final = frozenset({"stddev_over_time", "stdvar_over_time"})

ARITHMETIC: Final = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS: Final = ("==", "!=", ">", "<", ">=", "<=")
SETS: Final = ("and", "or", "or", "unless")

NUMBERS: Final = (
    "0", "1", "2", "0.5", "-1", "3.7", "100", "1e3", "0x1F", "1.5e-3", ".25", "0", "1", "2", "5", "-1", "10", "Inf",
    "-Inf", "NaN",
)  # fmt: skip
COUNTS: Final = ("1", "1", "2", "3", "5", "2.9", "100", "0", "-1")
QUANTILES: Final = ("0", "0.1", "0.5", "0.9", "0.99", "1", "-0.5", "1.5", "NaN")

RANGES: Final = ("20s", "45s", "1m", "2m", "5m", "5m", "5m", "10m", "15m", "1m30s")
LONG_RANGES: Final = ("5m", "10m", "15m")
SUBQUERY_RANGES: Final = ("3m500ms", "5m500ms", "10m1ms", "10m500ms", "20m999ms", "1m500ms")
"""Never a multiple of a step: a step is then never on the edge of the range."""
SUBQUERY_STEPS: Final = ("30s", "1m", "", "2m", "17s", "45s")
LONGEST_SUBQUERY_STEP: Final = "2m"
"""The one that is longer than a range."""
OFFSETS: Final = ("15s", "1m", "3m", "7m30s", "-1m", "-30s", "-5m", "10m")
QUERY_STEPS_S: Final = (1, 7, 15, 15, 30, 60, 60, 97, 300)

REPLACEMENTS: Final = (
    ("$1", "(.*)"),
    ("$1-x", "(.*)"),
    ("${2}_$1", "(.)(.*)"),
    ("", "a.*"),
    ("x", "nothing"),
    ("$port", "[a-z]:(?P<port>[0-9]+)"),
    ("y$0", "(?:api|canary|a:80)"),
    ("$9", "(.*)"),
    ("$$1", "(.*)"),
)
"""What `label_replace` puts, and for which regular expression."""
