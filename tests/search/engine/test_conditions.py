"""What conditions mean, told with lines of NDJSON."""

import json

import pytest

from tests.search.engine.searched import Bench

LOG = (
    {"id": 1, "level": "error", "status": 500, "msg": "request timed out"},
    {"id": 2, "level": "info", "status": "500", "msg": "ok"},
    {"id": 3, "level": "Error", "status": 404.0, "msg": 'C:\\dir said "no"'},
    {"id": 4, "level": None, "status": "5e2", "msg": "tab\there"},
    {"id": 5, "status": True, "msg": "über Straße"},
    {"id": 6, "level": "", "status": {"code": 500, "tags": ["a", "b"]}, "a.b": 1, "a": {"b": 2, "c": 3}},
    {"id": 7, "level": "warn", "status": 9007199254740993, "a": {"b": 4}},
    {"id": 8, "level": "error", "status": " 5 ", "msg": "1_000"},
)


def ids(bench: Bench, query: str, *lines: object) -> list[int]:
    return [row["id"] for row in bench.found(query, *(lines or LOG)).rows]


@pytest.mark.parametrize(
    "query, expected",
    [
        # every record
        ("", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("*", [1, 2, 3, 4, 5, 6, 7, 8]),
        # texts: to the letter
        ("level=error", [1, 8]),
        ("level==error", [1, 8]),
        ("level=Error", [3]),
        ('level=""', [6]),
        ("level=err", []),
        # not equal: present
        ("level!=error", [2, 3, 6, 7]),
        ("not level=error", [2, 3, 4, 5, 6, 7]),
        ("not level!=error", [1, 4, 5, 8]),
        # as texts
        ("level<F", [3, 6]),
        ("level>=info", [2, 7]),
        ('status="500"', [1, 2]),
        ("status=true", [5]),
        ("""status='{"code":500,"tags":["a","b"]}'""", [6]),
        # numbers
        ("status=500", [1, 2, 4]),
        ("status=500.0", [1, 2, 4]),
        ("status=5e2", [1, 2, 4]),
        ("status!=500", [3, 5, 6, 7, 8]),
        ("status>=404", [1, 2, 3, 4, 7]),
        ("status<500", [3]),
        ("status<=500", [1, 2, 3, 4]),
        ("status>1000", [7]),
        ("status=9007199254740993", [7]),
        ("status=9007199254740992", []),
        ("status>9007199254740992", [7]),
        ("status<9007199254740993", [1, 2, 3, 4]),
        # present
        ("level=*", [1, 2, 3, 6, 7, 8]),
        ("not level=*", [4, 5]),
        ("level!=*", []),
        # globs: the whole value, to the letter
        ("level=e*", [1, 8]),
        ("level=?rror", [1, 3, 8]),
        ("level=e*r", [1, 8]),
        ("level=rr*", []),
        ("level!=e*", [2, 3, 6, 7]),
        ("status=5*", [1, 2, 4]),
        # expressions
        ('level=~"^[Ee]rr"', [1, 3, 8]),
        ('level!~"^[Ee]rr"', [2, 6, 7]),
        ('msg=~"t.*d"', [1]),
        # dotted names
        ("a.b=1", [6]),
        ("a.b=2", []),
        ("a.b=4", [7]),
        ("a.c=3", [6]),
        ("status.code=500", [6]),
        ("status.tags.1=b", [6]),
        # words: in any case, anywhere
        ("TIMED", [1]),
        ('"Timed Out"', [1]),
        ("imed", [1]),
        ("level", [1, 2, 3, 4, 6, 7, 8]),
        ("500", [1, 2, 6]),
        ("strasse", []),
        ("STRAßE", [5]),
        ("ÜBER", [5]),
        ("t*out", [1]),
        ("t?med", [1]),
        ('=~"timed|Error"', [1, 3]),
        ('=~"TIMED"', []),
        ('=~"\\"level\\":\\"(info|warn)\\""', [2, 7]),
        # characters that JSON writes in another way
        ("""'said "no"'""", [3]),
        ("""'"level":"info"'""", [2]),
        ("""'c:\\\\DIR'""", [3]),
        ('"tab\\there"', [4]),
        ("""'"id":4'""", [4]),
        ('" 5 "', [8]),
        ('"[\\"a"', [6]),
        # both, either, neither
        ("level=error timed", [1]),
        ("level=error and not timed", [8]),
        ("level=error or level=info", [1, 2, 8]),
        ("level=info or level=error status=500", [1, 2]),
        ("not (level=error or level=info)", [3, 4, 5, 6, 7]),
        ("not not level=error", [1, 8]),
        # what is said often
        ("level=error or level=info or level=warn or level=none", [1, 2, 7, 8]),
        ("not (level=error or level=info or level=warn)", [3, 4, 5, 6]),
        ("level!=error level!=info level!=warn", [3, 6]),
        ("status>0 status<1000 status!=404 level=error", [1]),
        ('=~"timed" or =~"info" or =~"über"', [1, 2, 5]),
        ('not =~"timed" not =~"info" not =~"über" not level=error level=*', [3, 6, 7]),
        ("nothere=1", []),
        ("not nothere=1", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("nothere!=1", []),
    ],
)
def test_a_condition_finds(bench: Bench, query: str, expected: list[int]) -> None:
    assert ids(bench, query) == expected


@pytest.mark.parametrize("query", ["level=error", "error", "status=500", "level=e*", '=~"error"', "err*r", "level=*"])
def test_escapes_and_blanks_in_a_line_change_nothing(bench: Bench, query: str) -> None:
    plain = '{"id":1,"level":"error","status":500}'
    others = [
        '{ "id" : 1 , "level" : "error" , "status" : 500 }',
        r'{"id":1,"level":"\u0065rror","status":500}',
        r'{"id":1,"l\u0065vel":"err\u006fr","status":5e2}',
        '{"id":1,"level":"error","status":500.0}   ',
    ]
    answer = bench.found(query, plain, *others)
    expected = [plain, *others]
    if query == "status=500":
        assert [json.loads(line) for line in answer.lines] == [json.loads(line) for line in expected]
    else:
        assert [line.strip() for line in answer.lines] == [line.strip() for line in expected]


def test_the_letters_of_an_escape_are_not_its_text(bench: Bench) -> None:
    line = r'{"id":1,"name":"caf\u00e9"}'
    assert ids(bench, "café", line) == [1]
    assert ids(bench, "u00e9", line) == []
    assert ids(bench, "00", line) == []


def test_blanks_between_values_are_not_part_of_the_text(bench: Bench) -> None:
    line = '{"id": 1, "ok": true}'
    assert ids(bench, """'"ok":true'""", line) == [1]
    assert ids(bench, """'" true"'""", line) == []
    assert ids(bench, '" true"', line) == []


def test_numbers_are_found_as_they_stand(bench: Bench) -> None:
    lines = ['{"id":1,"n":1.50}', '{"id":2,"n":1.5}', r'{"id":3,"n":1.50,"s":"\\"}']
    assert ids(bench, "1.50", *lines) == [1, 3]
    assert ids(bench, "n=1.50", *lines) == [1, 2, 3]
    assert ids(bench, 'n="1.5"', *lines) == [1, 2, 3]


@pytest.mark.parametrize(
    "text", [" 5 ", "5 ", "1_000", "nan", "NaN", "inf", "Infinity", "0x10", "", "1e", "--1", "1e999"]
)
def test_what_only_looks_like_a_number_is_none(bench: Bench, text: str) -> None:
    assert ids(bench, "n>=0 or n<0", {"id": 1, "n": text}) == []


@pytest.mark.parametrize("text", ["5", "+5", "-5", "5.", ".5", "5e3", "5E-3", "007"])
def test_a_text_of_digits_is_a_number(bench: Bench, text: str) -> None:
    assert ids(bench, "n>=0 or n<0", {"id": 1, "n": text}) == [1]


@pytest.mark.parametrize(
    "value, at_us",
    [
        ("2026-11-01T12:00:00Z", 1_793_534_400_000_000),
        ("2026-11-01T12:00:00.123456789Z", 1_793_534_400_123_456),
        ("2026-11-01T12:00:00", 1_793_534_400_000_000),
        ("2026-11-01 12:00:00", 1_793_534_400_000_000),
        ("2026-11-01T14:00:00+02:00", 1_793_534_400_000_000),
        ("2026-11-01T08:30:00-0330", 1_793_534_400_000_000),
        ("2026-11-01", 1_793_491_200_000_000),
        (1_793_534_400, 1_793_534_400_000_000),
        (1_793_534_400.5, 1_793_534_400_500_000),
        (1_793_534_400_123, 1_793_534_400_123_000),
        (1_793_534_400_123_456, 1_793_534_400_123_456),
        (1_793_534_400_123_456_789, 1_793_534_400_123_456),
        ("1793534400", 1_793_534_400_000_000),
        (-1, -1_000_000),
        (0, 0),
    ],
)
def test_the_time_of_a_record(bench: Bench, value: object, at_us: int) -> None:
    def is_found(start_us: int, end_us: int) -> bool:
        return bool(bench.found("", {"ts": value}, start_us=start_us, end_us=end_us).lines)

    assert is_found(at_us, at_us + 1)
    assert not is_found(at_us + 1, at_us + 2)
    assert not is_found(at_us - 1, at_us)


@pytest.mark.parametrize("value", ["soon", "2026-13-01", "", None, True, {"a": 1}, "infinity", "1e999", 1e300])
def test_what_is_no_time_is_in_no_range(bench: Bench, value: object) -> None:
    answer = bench.found("[,]", {"ts": value})
    assert answer.lines == []
    assert bench.found("not [,]", {"ts": value}).matches == 1


def test_a_range_begins_with_its_start_and_ends_before_its_end(bench: Bench) -> None:
    lines = [{"id": second, "ts": f"2026-11-01T00:00:0{second}Z"} for second in range(5)]
    assert ids(bench, "[2026-11-01T00:00:01Z, 2026-11-01T00:00:03Z]", *lines) == [1, 2]
    assert ids(bench, "[2026-11-01T00:00:03Z,]", *lines) == [3, 4]
    assert ids(bench, "[,2026-11-01T00:00:02Z]", *lines) == [0, 1]
    assert ids(bench, "not [,2026-11-01T00:00:02Z]", *lines) == [2, 3, 4]


def test_a_relative_time_is_relative_to_the_search_and_not_to_the_clock(bench: Bench) -> None:
    lines = [{"id": second, "ts": second} for second in range(0, 100, 10)]
    answer = bench.found("[now-30s, now]", *lines, now_us=60_000_000)
    assert [row["id"] for row in answer.rows] == [30, 40, 50]


def test_a_range_of_the_search_and_one_in_its_text_both_hold(bench: Bench) -> None:
    lines = [{"id": second, "ts": second} for second in range(10)]
    answer = bench.found("[2,] not id=4", *lines, end_us=6_000_000)
    assert [row["id"] for row in answer.rows] == [2, 3, 5]


def test_without_a_time_field_nothing_has_a_time(bench: Bench) -> None:
    assert bench.found("[0,]", {"ts": 5}, time_field=None).lines == []
