"""The signatures of all functions of Prometheus 3.14, those behind its switch for experimental functions too.

What a function does is the kernels' matter. A name that is not in the table is no function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quarterdeck.metrics.promql.syntax.value_types import ValueType

_SCALAR, _VECTOR, _MATRIX, _STRING = ValueType.SCALAR, ValueType.VECTOR, ValueType.MATRIX, ValueType.STRING


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of one function."""

    name: str
    args: tuple[ValueType, ...]
    variadic: int = 0
    """0: exactly `args`. More: the last of `args` may be left out, or stand up to this many times. -1: any number."""
    returns: ValueType = ValueType.VECTOR
    experimental: bool = False

    @property
    def fewest(self) -> int:
        """The smallest number of arguments."""
        return len(self.args) - 1 if self.variadic else len(self.args)

    @property
    def most(self) -> int | None:
        """The largest number of arguments; None when there is none."""
        if self.variadic < 0:
            return None
        return self.fewest + self.variadic if self.variadic else len(self.args)


def _table() -> dict[str, Function]:
    vector_to_vector = (
        "abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count "
        "histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan tanh "
        "timestamp"
    )
    range_to_vector = (
        "absent_over_time avg_over_time changes count_over_time delta deriv idelta increase irate last_over_time "
        "max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time sum_over_time"
    )
    experimental_range_to_vector = (
        "first_over_time mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time "
        "ts_of_min_over_time"
    )
    calendar = "day_of_month day_of_week day_of_year days_in_month hour minute month year"
    functions = [
        *(Function(name, (_VECTOR,)) for name in vector_to_vector.split()),
        *(Function(name, (_MATRIX,)) for name in range_to_vector.split()),
        *(Function(name, (_MATRIX,), experimental=True) for name in experimental_range_to_vector.split()),
        *(Function(name, (_VECTOR,), variadic=1) for name in calendar.split()),
        *(Function(name, (), returns=_SCALAR) for name in ("pi", "time")),
        *(Function(name, (), returns=_SCALAR, experimental=True) for name in ("end", "range", "start", "step")),
        *(Function(name, (_SCALAR, _SCALAR), returns=_SCALAR, experimental=True) for name in ("max_of", "min_of")),
        *(Function(name, (_VECTOR, _SCALAR)) for name in ("clamp_max", "clamp_min")),
        Function("clamp", (_VECTOR, _SCALAR, _SCALAR)),
        Function("double_exponential_smoothing", (_MATRIX, _SCALAR, _SCALAR), experimental=True),
        Function("histogram_fraction", (_SCALAR, _SCALAR, _VECTOR)),
        Function("histogram_quantile", (_SCALAR, _VECTOR)),
        Function("histogram_quantiles", (_VECTOR, _STRING, _SCALAR, _SCALAR), variadic=9, experimental=True),
        Function("info", (_VECTOR, _VECTOR), variadic=1, experimental=True),
        Function("integral", (_MATRIX, _SCALAR), variadic=1, experimental=True),
        Function("label_join", (_VECTOR, _STRING, _STRING, _STRING), variadic=-1),
        Function("label_replace", (_VECTOR, _STRING, _STRING, _STRING, _STRING)),
        Function("predict_linear", (_MATRIX, _SCALAR)),
        Function("quantile_over_time", (_SCALAR, _MATRIX)),
        Function("round", (_VECTOR, _SCALAR), variadic=1),
        Function("scalar", (_VECTOR,), returns=_SCALAR),
        Function("start_timestamp", (_VECTOR,), experimental=True),
        Function("sort_by_label", (_VECTOR, _STRING), variadic=-1, experimental=True),
        Function("sort_by_label_desc", (_VECTOR, _STRING), variadic=-1, experimental=True),
        Function("vector", (_SCALAR,)),
    ]
    return {function.name: function for function in functions}


FUNCTIONS: Mapping[str, Function] = MappingProxyType(_table())
