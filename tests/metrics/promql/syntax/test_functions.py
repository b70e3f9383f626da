"""The table of functions: how many arguments each takes, and that it is the one of Prometheus 3.14."""

import pytest

from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.value_types import ValueType

EXPERIMENTAL = {
    *("double_exponential_smoothing", "end", "first_over_time", "histogram_quantiles", "info", "integral"),
    *("mad_over_time", "max_of", "min_of", "range", "sort_by_label", "sort_by_label_desc", "start"),
    *("start_timestamp", "step", "ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time"),
    "ts_of_min_over_time",
}


def test_a_function_is_found_under_its_own_name() -> None:
    assert {name for name, function in FUNCTIONS.items() if function.name != name} == set()


def test_the_experimental_functions_are_marked() -> None:
    assert {name for name, function in FUNCTIONS.items() if function.experimental} == EXPERIMENTAL


@pytest.mark.parametrize(
    "name, fewest, most",
    [
        ("time", 0, 0),
        ("rate", 1, 1),
        ("hour", 0, 1),
        ("round", 1, 2),
        ("info", 1, 2),
        ("label_replace", 5, 5),
        ("label_join", 3, None),
        ("sort_by_label", 1, None),
        ("histogram_quantiles", 3, 12),
    ],
)
def test_a_function_takes_a_known_number_of_arguments(name: str, fewest: int, most: int | None) -> None:
    assert (FUNCTIONS[name].fewest, FUNCTIONS[name].most) == (fewest, most)


def test_only_these_functions_give_a_scalar() -> None:
    scalars = {name for name, function in FUNCTIONS.items() if function.returns is ValueType.SCALAR}
    assert scalars == {"end", "max_of", "min_of", "pi", "range", "scalar", "start", "step", "time"}
