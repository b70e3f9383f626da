"""Which aggregates can be made from aggregates of parts, and how.

Most are merged by themselves or by a sum, which gives DuckDB's own types. Averages, deviations and the like travel as
DuckDB's own states, which it combines and finishes as it does for its threads. Aggregates that keep the values
themselves (median, list), depend on their order (first, string_agg) or are estimates are not here.
"""

from enum import StrEnum
from typing import Final

from quarterdeck.engines.sql_tree import Node, folded


class Merge(StrEnum):
    ITSELF = "itself"
    SUM = "sum"
    COUNT = "count"
    """A sum, and 0 of nothing."""
    STATE = "state"
    """DuckDB's own state, of arguments that are double."""
    AVERAGE = "average"
    """DuckDB's own state, of an argument whose type the worker tells."""
    DISTINCT = "distinct"
    """The values travel, each once for its group; it is computed where all are."""


_MERGES: Final = {
    **dict.fromkeys(("count", "count_star", "regr_count"), Merge.COUNT),
    **dict.fromkeys(("count_if", "countif"), Merge.SUM),  # null of nothing, unlike the others
    **dict.fromkeys(("sum", "min", "max", "product", "any_value"), Merge.ITSELF),
    **dict.fromkeys(("bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"), Merge.ITSELF),
    **dict.fromkeys(("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "sem"), Merge.STATE),
    **dict.fromkeys(("skewness", "kurtosis", "kurtosis_pop"), Merge.STATE),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2"), Merge.STATE),
    **dict.fromkeys(("regr_avgx", "regr_avgy", "regr_sxx", "regr_sxy", "regr_syy"), Merge.STATE),
    **dict.fromkeys(("avg", "mean"), Merge.AVERAGE),
}
_OTHERS: Final = frozenset(
    [
        "approx_count_distinct",
        "approx_quantile",
        "approx_top_k",
        "arbitrary",
        "arg_max",
        "arg_max_null",
        "arg_max_nulls_last",
        "arg_min",
        "arg_min_null",
        "arg_min_nulls_last",
        "argmax",
        "argmin",
        "array_agg",
        "bitstring_agg",
        "combine_aggr",
        "decimal_average",
        "entropy",
        "favg",
        "first",
        "fsum",
        "geomean",
        "geometric_mean",
        "group_concat",
        "histogram",
        "histogram_exact",
        "json_group_array",
        "json_group_object",
        "json_group_structure",
        "kahan_sum",
        "last",
        "list",
        "listagg",
        "lttb",
        "mad",
        "max_by",
        "median",
        "min_by",
        "mode",
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "reservoir_quantile",
        "string_agg",
        "sum_no_overflow",
        "sumkahan",
        "variant_group_array",
        "variant_group_object",
        "wavg",
        "weighted_avg",
    ]
)
"""Those that are not merged, including macros that are made of aggregates."""
AGGREGATES: Final = frozenset(_MERGES) | _OTHERS
_AVERAGED_AS: Final = {
    **dict.fromkeys(("TINYINT", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"),
    "UBIGINT": "HUGEINT",
    "BIGNUM": "DOUBLE",
    "VARIANT": "BIGINT",
    '"NULL"': "BIGINT",
    **dict.fromkeys(("UHUGEINT", "FLOAT"), "DOUBLE"),
    **dict.fromkeys(("DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "TIMESTAMP"),
}
"""What DuckDB makes of an argument before it takes the average of it."""


def is_aggregate(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and folded(node["function_name"]) in AGGREGATES


def merge_of(call: Node) -> Merge | None:
    """How the call of an aggregate is merged; None if it is not."""
    merge = _MERGES.get(folded(call["function_name"]))
    arguments = len(call["arguments"])
    if merge is None or call["export_state"] or call["order_bys"]["orders"] or arguments > 2:
        return None
    if call["distinct"] and folded(call["function_name"]) == "any_value":
        return None  # which of them comes first depends on how they are told apart
    if call["distinct"]:
        return Merge.DISTINCT if arguments == 1 else None
    if merge is Merge.ITSELF and arguments != 1:
        return None  # min(x, 3) is a list of three
    return merge


def averaged_as(kind: str) -> str:
    """The type in the signature of the state of an average."""
    return _AVERAGED_AS.get(kind, kind)
