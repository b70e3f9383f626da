"""Parameters are checked as Prometheus checks them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.api.errors import BadRequest, error_answer
from quarterdeck.metrics.api.parameters import (
    Conditions,
    Explain,
    Partial,
    label_values_parameters,
    labels_parameters,
    metadata_parameters,
    query_parameters,
    range_parameters,
    series_parameters,
)
from quarterdeck.metrics.api.times import MAX_TIME_MS, MIN_TIME_MS
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp

RANGE = {"query": ["up"], "start": ["0"], "end": ["3600"], "step": ["15"]}
USUAL = Conditions(None, None, 0, Partial.DENY, Explain.NOTHING)
TIME = 'invalid parameter "time":'
NO_STEP = (
    'invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer'
)
TOO_MANY = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"


def reason(error: QuarterdeckError) -> str:
    answer = error_answer(error)
    assert (answer.status, answer.error_type) == (400, "bad_data")
    return answer.text


def test_an_instant_query_is_about_now() -> None:
    asked = query_parameters({"query": ["up"], "stats": ["all"], "nobody": ["knows"]}, 5000)
    assert (asked.query, asked.time_ms, asked.conditions) == ("up", 5000, USUAL)


def test_all_conditions_of_a_query() -> None:
    form = {"timeout": ["2m"], "lookback_delta": ["10"], "limit": ["7"], "partial": ["allow"], "explain": ["analyze"]}
    conditions = Conditions(120_000, 10_000, 7, Partial.ALLOW, Explain.ANALYZE)
    assert query_parameters({"query": ["up"], **form}, 0).conditions == conditions
    assert range_parameters(RANGE | form).conditions == conditions


def test_a_range_query() -> None:
    asked = range_parameters(RANGE)
    assert (asked.query, asked.start_ms, asked.end_ms, asked.step_ms) == ("up", 0, 3_600_000, 15_000)


def test_the_first_of_several_values_counts_and_an_empty_one_is_not_there() -> None:
    asked = query_parameters({"query": ["a", "b"], "time": ["", "7"], "timeout": [], "limit": [""]}, 5000)
    assert (asked.query, asked.time_ms, asked.conditions) == ("a", 5000, USUAL)


@pytest.mark.parametrize(
    "form, text",
    [
        ({"time": ["soon"]}, f"""{TIME} invalid time value for 'time': cannot parse "soon" to a valid timestamp"""),
        ({"timeout": ["x"]}, 'invalid parameter "timeout": cannot parse "x" to a valid duration'),
        ({"lookback_delta": ["x"]}, 'error parsing lookback delta duration: cannot parse "x" to a valid duration'),
        ({"limit": ["x"]}, 'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax'),
        ({"limit": ["-1"]}, 'invalid parameter "limit": limit must be non-negative'),
        ({"limit": ["9" * 5000]}, f'invalid parameter "limit": strconv.Atoi: parsing "{"9" * 5000}": invalid syntax'),
        ({"partial": ["maybe"]}, 'invalid parameter "partial": it is "maybe", and may be "allow" or "deny"'),
        ({"explain": ["plan"]}, 'invalid parameter "explain": it is "plan", and may be "analyze"'),
    ],
)
def test_what_is_wrong_with_an_instant_query(form: dict[str, list[str]], text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        query_parameters({"query": ["up"]} | form, 0)
    assert reason(raised.value) == text


@pytest.mark.parametrize(
    "form, text",
    [
        ({"start": [""]}, 'invalid parameter "start": cannot parse "" to a valid timestamp'),
        ({"start": ["x"]}, 'invalid parameter "start": cannot parse "x" to a valid timestamp'),
        ({"end": ["1e300"]}, 'invalid parameter "end": cannot parse "1e300" to a valid timestamp'),
        ({"end": ["-1"]}, 'invalid parameter "end": end timestamp must not be before start time'),
        ({"step": []}, 'invalid parameter "step": cannot parse "" to a valid duration'),
        ({"step": ["NaN"]}, 'invalid parameter "step": cannot parse "NaN" to a valid duration'),
        ({"step": ["Inf"]}, 'invalid parameter "step": cannot parse "Inf" to a valid duration. It overflows int64'),
        ({"step": ["0"]}, NO_STEP),
        ({"step": ["-5"]}, NO_STEP),
        ({"step": ["0.0005"]}, NO_STEP),
        ({"end": ["11001"], "step": ["1"]}, TOO_MANY),
        (
            {"timeout": ["-Inf"]},
            'invalid parameter "timeout": cannot parse "-Inf" to a valid duration. It overflows int64',
        ),
    ],
)
def test_what_is_wrong_with_a_range_query(form: dict[str, list[str]], text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        range_parameters(RANGE | form)
    assert reason(raised.value) == text


def test_the_points_are_counted_as_prometheus_counts_them() -> None:
    assert range_parameters(RANGE | {"end": ["11000"], "step": ["1"]}).end_ms == 11_000_000


def test_a_query_that_is_not_there_is_no_query() -> None:
    for ask in (lambda: query_parameters({}, 0), lambda: range_parameters(RANGE | {"query": [""]})):
        with pytest.raises(ParseError) as raised:
            ask()
        assert reason(raised.value).startswith('invalid parameter "query": ')
        assert reason(raised.value).endswith("parse error: no expression found in input")


def test_series_are_asked_for_by_selectors() -> None:
    asked = series_parameters({"match[]": ["up", '{job=~"a.+"}'], "start": ["1"], "limit": ["5"]})
    assert asked.selectors == (
        (Matcher("__name__", MatchOp.EQUAL, "up"),),
        (Matcher("job", MatchOp.REGEX, "a.+"),),
    )
    assert (asked.start_ms, asked.end_ms, asked.limit) == (1000, MAX_TIME_MS, 5)


def test_labels_need_no_selector() -> None:
    asked = labels_parameters({})
    assert (asked.selectors, asked.start_ms, asked.end_ms, asked.limit) == ((), MIN_TIME_MS, MAX_TIME_MS, 0)


@pytest.mark.parametrize(
    "selector, text",
    [
        ("{}", "match[] must contain at least one non-empty matcher"),
        ('{job=~".*"}', "match[] must contain at least one non-empty matcher"),
        ('{job!="a"}', "match[] must contain at least one non-empty matcher"),
        ("up{", "1:4: parse error: unexpected end of input inside braces"),
        ("sum(up)", '1:4: parse error: unexpected "("'),
        ("up offset 5m", "1:4: parse error: unexpected <offset>"),
        ("up[5m]", '1:3: parse error: unexpected "["'),
        ("1", '1:1: parse error: unexpected number "1"'),
        ("(up)", '1:1: parse error: unexpected "("'),
    ],
)
def test_a_selector_that_is_none(selector: str, text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        series_parameters({"match[]": ["up", selector]})
    assert reason(raised.value) == f'invalid parameter "match[]": {text}'
    with pytest.raises(BadRequest) as raised:
        labels_parameters({"match[]": [selector]})
    assert reason(raised.value) == text


def test_series_without_a_selector() -> None:
    with pytest.raises(BadRequest) as raised:
        series_parameters({"match[]": []})
    assert reason(raised.value) == "no match[] parameter provided"


@pytest.mark.parametrize(
    "path, name",
    [
        ("job", "job"),
        ("a-b", "a-b"),
        ("http.status", "http.status"),
        ("U__http_2e_status__code", "http.status_code"),
        ("U___65e5_", "日"),
        ("U__a_zz_b", "U__a_zz_b"),
        ("U__a_d800_b", "U__a_d800_b"),
        ("U__a_110000_b", "U__a_110000_b"),
    ],
)
def test_names_of_labels(path: str, name: str) -> None:
    assert label_values_parameters(path, {}).name == name


@pytest.mark.parametrize("path, shown", [("", '""'), ("a\udcff", '"a\\xff"'), ("U__", '"U__"')])
def test_what_is_no_name_of_a_label(path: str, shown: str) -> None:
    with pytest.raises(BadRequest) as raised:
        label_values_parameters(path, {})
    assert reason(raised.value) == f"invalid label name: {shown}"


def test_metadata() -> None:
    asked = metadata_parameters({"metric": ["up"], "limit": ["2"]})
    assert (asked.metric, asked.limit, asked.limit_per_metric) == ("up", 2, -1)
    with pytest.raises(BadRequest) as raised:
        metadata_parameters({"limit_per_metric": ["x"]})
    assert reason(raised.value) == "limit_per_metric must be a number"


TEXTS = st.one_of(
    st.text('0123456789-+.:_eTZhmsyx{}="~[]()\udcff\n ', max_size=8),
    st.sampled_from(["1e300", "-1e308", "NaN", "-Inf", "1e-320", "9" * 40, "1y"]),
)
NAMES = st.sampled_from(["query", "time", "start", "end", "step", "timeout", "limit", "match[]", "lookback_delta"])


@given(st.dictionaries(NAMES, st.lists(TEXTS, max_size=2)))
def test_nothing_that_is_sent_raises_anything_but_an_error_of_ours(form: dict[str, list[str]]) -> None:
    for ask in (lambda: query_parameters(form, 0), lambda: range_parameters(form), lambda: series_parameters(form)):
        with contextlib.suppress(BadRequest, ParseError):
            ask()
