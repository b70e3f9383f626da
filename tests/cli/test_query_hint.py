"""What somebody is told whose query found nothing: the name, the time, or the labels, and what to try."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from tests.cli.answers import START_S, failure, matrix, vector
from tests.cli.scripted import Script, error, scripted_coordinator

SELECTED = "/api/v1/metrics/selected"
SERIES = "/api/v1/series"
FIRST_MS, LAST_MS = (START_S - 86_400) * 1000, (START_S - 3_600) * 1000
SPAN = "from 2023-11-13T22:13:20Z to 2023-11-14T21:13:20Z"
OVER_5_MIN = ("--start", str(START_S), "--end", str(START_S + 300))


def selector(**more: Any) -> dict[str, Any]:
    return {
        "selector": "up",
        "metric": "up",
        "start_ms": (START_S - 300) * 1000,
        "end_ms": START_S * 1000,
        "found": False,
        "first_ms": FIRST_MS,
        "last_ms": LAST_MS,
        "times_are_exact": True,
        "near": [],
        **more,
    }


def told(script: Script, *selectors: dict[str, Any], metrics: int = 9) -> None:
    script.answers[SELECTED] = (200, {"status": "success", "data": {"metrics": metrics, "selectors": list(selectors)}})


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        script.answers["/api/v1/query"] = vector()
        script.answers["/api/v1/query_range"] = matrix()
        yield script


def query(script: Script, *arguments: str, text: str = "up") -> Result:
    return CliRunner().invoke(app, ["query", text, "--url", script.url, *arguments], env={"COLUMNS": "60"})


def test_of_a_metric_with_samples_at_another_time_the_times_are_told_to_be_pasted(script: Script) -> None:
    told(script, selector())
    result = query(script, "--at", str(START_S), "--tenant", "team-a")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"the answer is empty: `up` has samples {SPAN}, and the query looks from 2023-11-14T22:08:20Z to "
        "2023-11-14T22:13:20Z; use --at 2023-11-14T21:13:20Z, or --start 2023-11-13T22:13:20Z --end "
        "2023-11-14T21:13:20Z\n"
    )
    (_, path, headers, form) = script.asked[1]
    assert (path, form, headers["x-scope-orgid"]) == (SELECTED, {"query": "up", "time": str(START_S)}, "team-a")
    over = query(script, *OVER_5_MIN).stderr
    assert "; use --start 2023-11-13T22:13:20Z --end 2023-11-14T21:13:20Z\n" in over
    assert {"query", "start", "end", "step"} == script.asked[-1][3].keys()


def test_times_that_are_not_exact_are_told_to_be_so(script: Script) -> None:
    told(script, selector(times_are_exact=False))
    assert f"`up` has samples some time {SPAN}" in query(script).stderr


def test_for_a_name_that_is_not_there_names_like_it_are_proposed(script: Script) -> None:
    told(script, selector(metric="upp", first_ms=None, last_ms=None, near=["up", "upper"]))
    assert "the answer is empty: there is no metric `upp`; did you mean `up`, `upper`?\n" in query(script).stderr
    told(script, selector(metric="zzz", first_ms=None, last_ms=None))
    assert f"there is no metric `zzz`; `quarterdeck metrics --url {script.url}` lists those" in query(script).stderr


def test_labels_that_match_nothing_are_told(script: Script) -> None:
    labels = selector(selector='up{job="x"}', last_ms=START_S * 1000)
    told(script, labels)
    assert 'matches `up{job="x"}`: look at the labels' in query(script).stderr
    assert [path for _, path, _, _ in script.asked] == ["/api/v1/query", SELECTED], "the catalog was certain"
    told(script, labels | {"found": True})
    script.answers[SERIES] = (200, {"status": "success", "data": []})
    assert 'matches `up{job="x"}`: look at the labels' in query(script).stderr
    assert script.asked[-1][3]["match[]"] == 'up{job="x"}'


def test_what_the_query_does_with_what_it_finds_is_told_to_leave_nothing(script: Script) -> None:
    told(script, selector(found=True, last_ms=START_S * 1000))
    script.answers[SERIES] = (200, {"status": "success", "data": [{"__name__": "up"}]})
    assert "`up` has samples from 2023-11-14T22:08:20Z" in query(script, text="up > 5").stderr
    assert "such as a comparison" in query(script, text="up > 5").stderr
    told(script)
    assert "the query selects no metrics" in query(script, text="vector(1) > 2").stderr


def test_a_gap_is_told_as_such(script: Script) -> None:
    told(script, selector(last_ms=(START_S + 999) * 1000))
    assert "`up` has no samples from 2023-11-14T22:08:20Z to 2023-11-14T22:13:20Z, but before and after" in (
        query(script).stderr
    )


def test_each_selector_of_a_few_is_told_about(script: Script) -> None:
    told(script, *(selector(metric=f"m{number}", first_ms=None, last_ms=None) for number in range(7)))
    lines = query(script).stderr.splitlines()
    assert [line.count("there is no metric") for line in lines] == [1, 1, 1, 1, 1, 0]


def test_an_empty_lake_is_told_with_what_fills_it(script: Script) -> None:
    told(script, selector(first_ms=None, last_ms=None), metrics=0)
    first, second = query(script, "--tenant", "team-a").stderr.splitlines()
    assert first == "the answer is empty: there are no metrics for the tenant team-a"
    flags = f"--url {script.url} --tenant team-a"
    assert (
        second
        == f"bring some with `quarterdeck import FILE {flags}`, or try things with `quarterdeck sample-data {flags}`"
    )


@pytest.mark.parametrize(
    "answer",
    [failure(404, "not_found", "no"), failure(400, "bad_data", "no"), (500, error("internal")), (200, {"data": 1})],
)
def test_a_server_that_cannot_say_why_is_not_asked_to(script: Script, answer: tuple[int, Any]) -> None:
    script.answers[SELECTED] = answer
    result = query(script)
    assert result.exit_code == 0
    assert result.stderr == (
        "the answer is empty: no series matches at that time\n"
        f"`quarterdeck metrics --url {script.url}` lists the metrics\n"
    )


def test_what_programs_read_gets_no_hint(script: Script) -> None:
    told(script, selector())
    assert query(script, "--format", "json").stderr == ""
