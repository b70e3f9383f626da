"""Fields and times that no record has are errors that say so, before or after the search."""

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from tests.search.root.searched import PlayedWorkers, Root, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


def test_a_field_that_no_record_has_is_an_error_with_its_place_and_the_likely_one(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        for number in range(3):
            root.put(f"{number}.ndjson", {"level": "error", "host": "a"})
        with pytest.raises(QuarterdeckError) as raised:
            await root.search("error | count() by hots, levle")
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT
        assert "column 20: none of the 3 files has a field `hots`; did you mean `host`?" in str(raised.value)
        assert str(raised.value).splitlines()[1:] == ["  error | count() by hots, levle", " " * 21 + "^^^^"]
        assert root.workers.asked_about[0] == {"hots", "levle"}

    play(tmp_path, scenario, PlayedWorkers(2))


def test_a_field_that_is_rare_is_asked_for_until_it_was_seen(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"n": 1}, {"n": 2, "rare": "x"})
        for number in range(1, 4):
            root.put(f"{number}.ndjson", {"n": 1})
        found = await root.search("rare=x", max_workers=1)
        assert found.records == [{"n": 2, "rare": "x"}]
        assert root.workers.asked_about == {0: {"rare"}, 1: set(), 2: set(), 3: set()}

    play(tmp_path, scenario, PlayedWorkers(1))


def test_a_search_of_empty_files_names_no_field(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson")
        assert (await root.search("level=error")).records == []

    play(tmp_path, scenario, PlayedWorkers(1))


def test_the_time_of_records_is_the_first_known_name_that_a_sample_has(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"time": 1, "@timestamp": 1, "n": 1})
        found = await root.search()
        assert found.running.plan.spec.time_field == "time"
        found = await root.search(time_field="n", start="now-1h", end="2026-10-01T00:00:00+02:00")
        spec = found.running.plan.spec
        assert (spec.time_field, spec.now_us - (spec.start_us or 0)) == ("n", 3_600_000_000)
        assert spec.end_us == 1_790_805_600_000_000

    play(tmp_path, scenario)


@pytest.mark.parametrize("options", [{"query": "[now-1h,] or x"}, {"query": "x", "start": "now-1h"}])
def test_a_time_range_without_a_time_says_how_to_name_one(tmp_path: Path, options: dict[str, str]) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"n": 1})
        with pytest.raises(QuarterdeckError, match="time_field, or --time-field") as raised:
            await root.search(**options)
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT

    play(tmp_path, scenario)


def test_a_time_field_that_somebody_named_must_be_there(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"when": 1, "n": 1})
        with pytest.raises(QuarterdeckError, match="time_field: the file has no field `whem`; did you mean `when`"):
            await root.search(time_field="whem")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"query": "level="}, r"\^"),
        ({"sources": ()}, "no source"),
        ({"max_workers": 0}, "max_workers is 0"),
        ({"max_workers": 101}, "max_workers is 101"),
        ({"start": "yesterday"}, "start is 'yesterday'"),
        ({"start": "now", "end": "now-1h"}, "not after its start"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_recruited(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"ts": 1})
        with pytest.raises(QuarterdeckError, match=why) as raised:
            await root.search(**options)
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT
        assert root.workers.asked == []

    play(tmp_path, scenario, PlayedWorkers(2))


def test_relative_sources_are_below_the_data_path_and_alone_it_is_the_source(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("a/0.ndjson", {"n": 0})
        root.put("b/1.ndjson", {"n": 1})
        assert (await root.search(data_path=str(tmp_path), sources=("b",))).numbers == [1]
        assert (await root.search(data_path=str(tmp_path), sources=("b", f"{tmp_path}/a/"))).numbers == [1, 0]
        assert (await root.search(data_path=f"{tmp_path}/", sources=())).numbers == [0, 1]

    play(tmp_path, scenario)
