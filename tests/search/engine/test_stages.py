"""What stages mean. Every case is searched as one chunk and as many, which must not make a difference. That a process
of its own says the same, `test_contained_search` and `test_differential` look at."""

import itertools
import json
import math
from typing import Any

import pytest

from quarterdeck.search.model import Order, SearchSpec
from tests.search.engine.searched import IN_THIS_PROCESS, Bench, whole

WAYS = IN_THIS_PROCESS
pytestmark = pytest.mark.usefixtures("gathered_in_one_database")

LOG: tuple[dict[str, Any], ...] = (
    {"id": 1, "ts": 10, "host": "b", "n": 3, "m": 1.5},
    {"id": 2, "ts": 5, "host": "a", "n": 10},
    {"id": 3, "host": "b", "n": "7", "m": "x"},
    {"id": 4, "ts": 5, "host": "a", "n": None, "m": True},
    {"id": 5, "ts": 1, "host": None, "n": 2.5, "m": "abc"},
    {"id": 6, "ts": 20, "n": -1, "m": 12},
    {"id": 7, "ts": 10, "host": 5, "n": 3},
    {"id": 8, "ts": 7, "host": "5", "n": 3, "m": {"k": [1]}},
)


def rows(bench: Bench, query: str, *lines: object, order: Order = Order.INPUT, **options: Any) -> list[Any]:
    lines = lines or LOG
    together = bench.found(query, *lines, order=order, **options)
    chunks = [
        [whole(bench.write(f"{number}-{half}.ndjson", line)) for half, line in enumerate(lines[number : number + 2])]
        for number in range(0, len(lines), 2)
    ]
    backwards = list(reversed(range(len(chunks))))
    apart = bench.search(query, chunks, order=order, arrival=backwards, **options)
    assert apart.lines == together.lines
    if "head" not in query:
        assert apart.matches == together.matches
    return together.rows


def ids(bench: Bench, query: str, order: Order = Order.INPUT) -> list[int]:
    return [row["id"] for row in rows(bench, query, order=order)]


# Order


def test_records_come_as_they_stand_in_the_files(bench: Bench) -> None:
    assert ids(bench, "") == [1, 2, 3, 4, 5, 6, 7, 8]


def test_records_come_by_time_and_those_without_one_last(bench: Bench) -> None:
    assert ids(bench, "", Order.TIME) == [5, 2, 4, 8, 1, 7, 6, 3]


def test_without_a_time_field_records_come_as_they_stand(bench: Bench) -> None:
    assert [row["id"] for row in rows(bench, "", order=Order.TIME, time_field=None)] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("count", [0, 1, 3, 8, 100])
def test_head_and_tail_are_the_ends_of_the_order(bench: Bench, order: Order, count: int) -> None:
    everything = [5, 2, 4, 8, 1, 7, 6, 3] if order is Order.TIME else [1, 2, 3, 4, 5, 6, 7, 8]
    if order is Order.NONE:
        assert len(bench.found(f"| head {count}", *LOG, order=order).rows) == min(count, 8)
        return
    assert ids(bench, f"| head {count}", order) == everything[:count]
    assert ids(bench, f"| tail {count}", order) == everything[max(0, 8 - count) :]


def test_a_line_is_given_as_it_stands(bench: Bench) -> None:
    line = r'{ "b":1.50,"a" : "\u00e9", "x":[1, 2]}'
    assert bench.found("", line).lines == [line]
    assert bench.found("| sort b | tail 1", line).lines == [line]
    assert bench.found("| uniq", line, line).lines == [line]


# Sort


def test_numbers_come_before_texts_and_nothing_last_in_both_directions(bench: Bench) -> None:
    assert ids(bench, "| sort n") == [6, 5, 1, 7, 8, 3, 2, 4]
    assert ids(bench, "| sort -r n") == [2, 3, 1, 7, 8, 5, 6, 4]
    assert ids(bench, "| sort m") == [1, 6, 5, 4, 3, 8, 2, 7]
    assert ids(bench, "| sort host") == [7, 8, 2, 4, 1, 3, 5, 6]
    assert ids(bench, "| sort host desc") == [7, 8, 1, 3, 2, 4, 5, 6]


def test_equals_stay_in_their_order(bench: Bench) -> None:
    assert ids(bench, "| sort n | head 3") == [6, 5, 1]
    assert ids(bench, "| sort host, n") == [7, 8, 2, 4, 1, 3, 6, 5]
    assert ids(bench, "| sort host desc, n desc") == [7, 8, 3, 1, 2, 4, 5, 6]
    assert ids(bench, "| sort id | sort host") == [7, 8, 2, 4, 1, 3, 5, 6]
    assert ids(bench, "| sort -r id | sort host") == [8, 7, 4, 2, 3, 1, 6, 5]


def test_integers_that_a_double_cannot_tell_apart_are_sorted(bench: Bench) -> None:
    big = [{"n": 2**60 + offset} for offset in (3, 1, 2, 0)]
    assert [row["n"] - 2**60 for row in rows(bench, "| sort n", *big)] == [0, 1, 2, 3]
    assert rows(bench, "| max(n), min(n)", *big) == [{"max_n": 2**60 + 3, "min_n": 2**60}]


def test_sort_and_head_in_the_order_of_time(bench: Bench) -> None:
    assert ids(bench, "| sort n | head 4", Order.TIME) == [6, 5, 8, 1]
    assert ids(bench, "| sort n | tail 2", Order.TIME) == [2, 4]
    assert ids(bench, "| head 3 | sort id", Order.TIME) == [2, 4, 5]
    assert ids(bench, "| tail 3 | head 1", Order.TIME) == [7]


# Cut


def test_cut_keeps_fields_in_its_order_with_their_types(bench: Bench) -> None:
    assert bench.found("id<3 | cut n, host, id", *LOG).lines == [
        '{"n":3,"host":"b","id":1}',
        '{"n":10,"host":"a","id":2}',
    ]
    assert rows(bench, "| cut m") == [{"m": value} for value in (1.5, "x", True, "abc", 12, {"k": [1]})]


def test_records_without_any_of_the_fields_go_and_still_count_as_found(bench: Bench) -> None:
    answer = bench.found("| cut host", *LOG)
    assert [row["host"] for row in answer.rows] == ["b", "a", "b", "a", 5, "5"]
    assert answer.matches == 8
    assert bench.found("| cut host | count()", *LOG).rows == [{"count": 6}]
    assert bench.found("| cut host | count()", *LOG).matches == 8


def test_cut_of_a_nested_field_is_called_by_its_name(bench: Bench) -> None:
    assert rows(bench, "| cut m.k") == [{"m.k": [1]}]
    assert rows(bench, "| cut m | cut m.k.0 | sort m.k.0") == [{"m.k.0": 1}]


def test_cut_before_and_after_other_stages(bench: Bench) -> None:
    assert rows(bench, "| cut id, n | sort -r n | head 2 | cut id") == [{"id": 2}, {"id": 3}]
    assert rows(bench, "| sort -r n | cut id | head 2") == [{"id": 2}, {"id": 3}]
    assert rows(bench, "| head 3 | cut m") == [{"m": 1.5}, {"m": "x"}]
    assert [row["id"] for row in rows(bench, "| cut id", order=Order.TIME)] == [5, 2, 4, 8, 1, 7, 6, 3]


# Uniq


def test_each_record_once_where_it_first_stood(bench: Bench) -> None:
    lines = ['{"a":1,"ts":3}', '{"a":2,"ts":2}', '{ "a":1, "ts":3 }', r'{"\u0061":1,"ts":3}', '{"a":3,"ts":1}']
    assert bench.found("| uniq", *lines).lines == ['{"a":1,"ts":3}', '{"a":2,"ts":2}', '{"a":3,"ts":1}']
    counted = [{"a": 1, "ts": 3, "count": 3}, {"a": 2, "ts": 2, "count": 1}, {"a": 3, "ts": 1, "count": 1}]
    assert rows(bench, "| uniq -c", *lines) == counted
    assert rows(bench, "| uniq -c", *lines, order=Order.TIME) == [counted[2], counted[1], counted[0]]
    assert rows(bench, "| cut a | uniq | tail 1", *lines, order=Order.TIME) == [{"a": 1}]


def test_uniq_after_cut_and_sort(bench: Bench) -> None:
    assert rows(bench, "| cut host | uniq -c") == [
        {"host": "b", "count": 2},
        {"host": "a", "count": 2},
        {"host": 5, "count": 1},
        {"host": "5", "count": 1},
    ]
    assert rows(bench, "| cut n | sort -r n | uniq | head 2") == [{"n": 10}, {"n": "7"}]
    assert rows(bench, "| cut host | uniq", order=Order.TIME) == [{"host": host} for host in ("a", "5", "b", 5)]


def test_a_count_replaces_a_field_of_its_name(bench: Bench) -> None:
    assert rows(bench, "| uniq -c", {"count": {"x": 1}}, {"count": {"x": 1}}) == [{"count": 2}]
    assert rows(bench, "| uniq -c", "{}", "{}") == [{"count": 2}]


# Summaries


def test_counts(bench: Bench) -> None:
    assert rows(bench, "| count()") == [{"count": 8}]
    assert rows(bench, "| count(host), count(n) as with_n, count()") == [{"count_host": 5 + 1, "with_n": 7, "count": 8}]
    assert rows(bench, "nothere=1 | count()") == [{"count": 0}]
    assert rows(bench, "nothere=1 | count(n), sum(n), avg(n), min(n), max(n)") == [
        {"count_n": 0, "sum_n": None, "avg_n": None, "min_n": None, "max_n": None}
    ]
    assert rows(bench, "nothere=1 | count() by host") == []


def test_groups_are_values_with_their_types_in_their_order(bench: Bench) -> None:
    assert rows(bench, "| count() by host") == [
        {"host": 5, "count": 1},
        {"host": "5", "count": 1},
        {"host": "a", "count": 2},
        {"host": "b", "count": 2},
        {"host": None, "count": 2},
    ]
    assert rows(bench, "| count() by m, host")[0] == {"m": 1.5, "host": "b", "count": 1}


def test_sums_are_of_numbers_and_integers_stay_integers(bench: Bench) -> None:
    assert rows(bench, "| sum(n), avg(n), sum(m)") == [{"sum_n": 27.5, "avg_n": 27.5 / 7, "sum_m": 13.5}]
    assert bench.found("id<=3 | sum(n), avg(n)", *LOG).lines == ['{"sum_n":20,"avg_n":6.666666666666667}']
    assert bench.found("| sum(n)", {"n": 1.0}, {"n": 2}).lines == ['{"sum_n":3.0}']


def test_sums_of_integers_are_exact(bench: Bench) -> None:
    lines = [{"n": 2**62}, {"n": 2**62}, {"n": 2**62}, {"n": 1}, {"n": 12345678901234567890123}]
    assert rows(bench, "| sum(n)", *lines) == [{"sum_n": 3 * 2**62 + 1 + 12345678901234567890123}]


def test_sums_of_doubles_are_corrected_and_the_same_however_chunks_come(bench: Bench) -> None:
    lines = [{"n": 0.1} for _ in range(50)]
    (row,) = rows(bench, "| sum(n)", *lines)
    assert math.isclose(row["sum_n"], 5.0, rel_tol=1e-15)
    lines = [{"n": value} for value in (1e16, 1.5, -1e16, 0.25, 1e-3) * 4]
    chunks = [[whole(bench.write(f"{number}.ndjson", line))] for number, line in enumerate(lines)]
    arrivals = [list(range(20)), list(reversed(range(20))), [*range(1, 20, 2), *range(0, 20, 2)]]
    answers = {bench.search("| sum(n), avg(n)", chunks, arrival=arrival).lines[0] for arrival in arrivals}
    assert len(answers) == 1


def test_a_sum_that_no_double_can_hold_is_a_text(bench: Bench) -> None:
    (row,) = rows(bench, "| sum(n)", {"n": 1.5e308}, {"n": 1.5e308})
    assert row["sum_n"] in ("Infinity", "NaN")


def test_the_least_is_a_number_if_there_is_one_and_the_greatest_a_text(bench: Bench) -> None:
    assert rows(bench, "| min(m), max(m)") == [{"min_m": 1.5, "max_m": '{"k":[1]}'}]
    assert rows(bench, "| min(host), max(host)") == [{"min_host": 5, "max_host": "b"}]
    assert rows(bench, "| min(n), max(n)") == [{"min_n": -1, "max_n": 10}]
    assert rows(bench, "host=a | max(host)") == [{"max_host": "a"}]


def test_stages_after_a_summary_work_on_its_rows(bench: Bench) -> None:
    assert rows(bench, "| count() by host | sort count desc, host | head 2") == [
        {"host": "a", "count": 2},
        {"host": "b", "count": 2},
    ]
    assert rows(bench, "| count() by host | sum(count), count()") == [{"sum_count": 8, "count": 5}]
    assert rows(bench, "| count() as n by host | count() by n") == [{"n": 1, "count": 2}, {"n": 2, "count": 3}]
    assert rows(bench, "| count() as n by host | cut n | uniq -c") == [{"n": 1, "count": 2}, {"n": 2, "count": 3}]
    assert rows(bench, "| count() by host | tail 1") == [{"host": None, "count": 2}]
    assert rows(bench, "| head 4 | count() by host") == [{"host": "a", "count": 2}, {"host": "b", "count": 2}]


def test_a_summary_of_nested_fields(bench: Bench) -> None:
    lines = [{"a": {"b": "x"}, "n": {"v": 1}}, {"a.b": "x", "n": {"v": 2}}, {"a": {"b": "y"}}]
    assert rows(bench, "| sum(n.v) by a.b", *lines) == [{"a.b": "x", "sum_n.v": 3}, {"a.b": "y", "sum_n.v": None}]


# Fields


def test_the_fields_of_records_with_how_many_have_them(bench: Bench) -> None:
    assert rows(bench, "| fields") == [
        {"field": "host", "count": 6},
        {"field": "id", "count": 8},
        {"field": "m", "count": 6},
        {"field": "n", "count": 7},
        {"field": "ts", "count": 7},
    ]
    assert rows(bench, "id=4 | fields") == [{"field": name, "count": 1} for name in ("host", "id", "m", "ts")]
    assert rows(bench, "nothere=1 | fields") == []
    assert bench.found("| fields", *LOG).matches == 8
    assert rows(bench, "| fields | sort -r count | head 1") == [{"field": "id", "count": 8}]
    assert rows(bench, "| head 2 | fields | tail 1") == [{"field": "ts", "count": 2}]


@pytest.mark.parametrize("stage", ["head 3", "tail 3", "sort n | head 3", "sort -r n | tail 2"])
def test_a_chunk_gives_no_more_rows_than_are_asked_for(bench: Bench, stage: str) -> None:
    files = [whole(bench.write(f"{number}.ndjson.gz", *LOG)) for number in range(3)]
    for order in Order:
        batches, report = bench.chunk(SearchSpec(f"| {stage}", 0, order, "ts"), files)
        assert sum(batch.num_rows for batch in batches) == int(stage[-1])
        if order is Order.TIME or stage != "head 3":
            assert report.matches == 24


def test_everything_that_json_can_hold_comes_out_as_it_was(bench: Bench) -> None:
    values: list[Any] = [
        0,
        -1,
        1.25,
        "",
        "\u0000",
        '"',
        "\\",
        "é\U0001f600",
        "\n",
        [],
        {},
        [{"a": None}],
        True,
        False,
        2**70,
    ]
    for first, second in itertools.pairwise(values):
        line = {"a": first, "b": second}
        assert rows(bench, "| cut b, a", line) == [{"b": second, "a": first}]
        assert json.loads(bench.found("| count() by a", line).lines[0]) == {"a": first, "count": 1}


def test_minus_zero_is_the_integer_zero(bench: Bench) -> None:
    path = bench.write("log.ndjson", '{"a":-0}', '{"a":1}', '{"a":2}')
    assert bench.search("| sum(a), min(a)", [[whole(path)]]).lines == ['{"sum_a":3,"min_a":0}']
    assert bench.search("| count() by a", [[whole(path)]]).rows[0] == {"a": 0, "count": 1}
    assert bench.search("a=0 | count()", [[whole(path)]]).rows == [{"count": 1}]
