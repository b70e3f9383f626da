"""What of a request to the API of Prometheus is too much, and how that is told."""

import asyncio

import pytest
from starlette.requests import Request

from quarterdeck.metrics.api.errors import BadRequest
from quarterdeck.metrics.api.form import MAX_FORM_BYTES, MAX_PARAMETERS, MAX_VALUE_CHARACTERS, parse_form
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.parameters import labels_parameters, query_parameters, series_parameters
from quarterdeck.metrics.api.selectors import MAX_CHARACTERS, MAX_MATCHERS, MAX_SELECTORS, parse_selectors
from quarterdeck.metrics.api.stream_request import parse_stream_request
from quarterdeck.metrics.api.tag_request import parse_tag_request
from quarterdeck.metrics.routes import in_moments, listed, read_form


def test_a_form_has_so_many_parameters_those_of_the_address_among_them() -> None:
    half = MAX_PARAMETERS // 2
    form = parse_form(b"&".join([b"a=1"] * half), "&".join(["b=2"] * half))
    assert (len(form["a"]), len(form["b"])) == (half, half)
    with pytest.raises(BadRequest, match=f"has 1,001 parameters, and at most {MAX_PARAMETERS:,} are allowed"):
        parse_form(b"&".join([b"a=1"] * half), "&".join(["b=2"] * (half + 1)))


def test_parameters_are_counted_before_they_are_read() -> None:
    with pytest.raises(BadRequest, match="200,001 parameters"):
        parse_form(b"match[]=up&" * 200_000, "")


def test_a_form_has_so_many_bytes() -> None:
    assert len(parse_form(b"a=" + b"x" * (MAX_FORM_BYTES - 2), "")["a"][0]) == MAX_FORM_BYTES - 2
    with pytest.raises(BadRequest, match=f"at most {MAX_FORM_BYTES:,} are allowed"):
        parse_form(b"a=" + b"x" * MAX_FORM_BYTES, "")


@pytest.mark.parametrize("name", ["time", "timeout", "limit", "partial", "explain", "lookback_delta"])
def test_a_value_that_is_no_query_is_short(name: str) -> None:
    with pytest.raises(BadRequest, match=f'invalid parameter "{name}": it has {MAX_VALUE_CHARACTERS + 1:,} characters'):
        query_parameters({"query": ["up"], name: ["9" * (MAX_VALUE_CHARACTERS + 1)]}, 0)


def test_selectors_are_limited_in_number_in_matchers_and_in_length() -> None:
    assert len(parse_selectors(["up"] * MAX_SELECTORS)) == MAX_SELECTORS
    many = "{" + ",".join(f'l{number}="1"' for number in range(MAX_MATCHERS)) + "}"
    assert len(parse_selectors([many])[0]) == MAX_MATCHERS
    for texts, told in (
        (["up"] * (MAX_SELECTORS + 1), "257 selectors"),
        ([many, "up"], "1,001 matchers"),
        (["up{a='" + "x" * MAX_CHARACTERS + "'}"], "characters"),
    ):
        with pytest.raises(ValueError, match=f"{told}.*ask in several requests"):
            parse_selectors(texts)


def test_too_many_selectors_are_told_in_the_words_of_each_path() -> None:
    form = {"match[]": ["up"] * 257}
    with pytest.raises(BadRequest, match=r'invalid parameter "match\[\]": there are 257 selectors'):
        series_parameters(form)
    with pytest.raises(BadRequest, match="not understood: there are 257 selectors"):
        labels_parameters(form)
    with pytest.raises(BadRequest, match='invalid parameter "q": the selectors have'):
        parse_tag_request({"q": "up{a='" + "x" * MAX_CHARACTERS + "'}"}, 0)
    with pytest.raises(BadRequest, match="at least one non-empty matcher"):
        parse_tag_request({"q": "{}"}, 0)


def test_a_time_of_a_stream_is_short() -> None:
    long = "1h" * MAX_VALUE_CHARACTERS
    with pytest.raises(BadRequest, match='invalid parameter "s": cannot parse "now-1h1h') as raised:
        parse_stream_request(b'{"q": "up", "s": "now-%s"}' % long.encode(), 0)
    assert len(raised.value.reason) < 300


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "query_string": b"a=" + b"x" * 5_000, "headers": raw})


def test_what_is_long_is_read_away_from_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[None] = []

    async def in_thread(function: object) -> object:
        assert callable(function)
        threads.append(None)
        return function()

    monkeypatch.setattr("quarterdeck.metrics.routes.in_thread", in_thread)

    async def test() -> None:
        assert await in_moments({"match[]": ["up"], "limit": "1", "other": 1}, lambda: 1) == 1
        assert threads == []
        assert await in_moments({"match[]": ["up", "x" * 4_000]}, lambda: 2) == 2
        assert len((await read_form(request()))["a"][0]) == 5_000
        assert len(threads) == 2

    asyncio.run(test())


def test_a_long_list_is_told_whole_and_a_limit_cuts_it() -> None:
    rows = [str(number) for number in range(2_500)]
    assert b"".join(listed(rows, json_bytes, 0, ())) == json_bytes({"status": "success", "data": rows})
    assert b"".join(listed(rows, json_bytes, 2_500, ["w"])) == json_bytes(
        {"status": "success", "data": rows, "warnings": ["w"]}
    )
    assert b"".join(listed(rows, json_bytes, 1_001, ["w"])) == json_bytes(
        {"status": "success", "data": rows[:1_001], "warnings": ["w", "results truncated due to limit"]}
    )
    assert b"".join(listed([], json_bytes, 0, ())) == b'{"status":"success","data":[]}'
