"""Texts and the trees that they are."""

from decimal import Decimal

import pytest

from quarterdeck.search.language.ast import (
    Aggregate,
    AggregateOp,
    And,
    Compare,
    Condition,
    Contains,
    Cut,
    Everything,
    Field,
    Glob,
    Head,
    ListFields,
    Not,
    Number,
    Op,
    Or,
    Regex,
    Search,
    Sort,
    SortKey,
    Stage,
    Summarize,
    Tail,
    Text,
    TimePoint,
    TimeRange,
    Uniq,
    Value,
)
from quarterdeck.search.language.parser import parse_search


def word(text: str) -> Contains:
    return Contains(Text(text))


def phrase(text: str) -> Contains:
    return Contains(Text(text, quoted=True))


def number(text: str) -> Number:
    return Number(text, Decimal(text))


def compare(name: str, op: Op, value: Value) -> Compare:
    return Compare(Field(name), op, value)


def equal(name: str, text: str) -> Compare:
    return compare(name, Op.EQUAL, Text(text))


A, B, C, D = word("a"), word("b"), word("c"), word("d")

TERMS: list[tuple[str, Condition]] = [
    ("", Everything()),
    ("  \n\t ", Everything()),
    ("*", Everything()),
    ("error", word("error")),
    ("  error\n", word("error")),
    ("ErRoR-17:ok/x", word("ErRoR-17:ok/x")),
    ("500", word("500")),
    ("-1", word("-1")),
    ("größe", word("größe")),
    ("日本", word("日本")),
    ("~x", word("~x")),
    ("a\u00a0b", And((A, B))),
    ("time*out", Contains(Glob("time*out"))),
    ("?", Contains(Glob("?"))),
    ("**", Contains(Glob("**"))),
    ('"connection reset"', phrase("connection reset")),
    ("'a*'", phrase("a*")),
    ('""', phrase("")),
    ('=~"a b|c"', Contains(Regex("a b|c"))),
    ('~"a"', Contains(Regex("a"))),
    ("~ 'a'", Contains(Regex("a"))),
    ('!~"a"', Not(Contains(Regex("a")))),
    ("level=error", equal("level", "error")),
    ("level == error", equal("level", "error")),
    ("level\n=\terror", equal("level", "error")),
    ("level!=error", compare("level", Op.NOT_EQUAL, Text("error"))),
    ("path=/api/v1", equal("path", "/api/v1")),
    ("t=12:30", equal("t", "12:30")),
    ("t=2026-01-31T12:00:00+01:00", equal("t", "2026-01-31T12:00:00+01:00")),
    ("x=and", equal("x", "and")),
    ("x= ~y", equal("x", "~y")),
    ("x=\\d", equal("x", "\\d")),
    ("http.status=500", compare("http.status", Op.EQUAL, number("500"))),
    ("x<-1.5e-3", compare("x", Op.LESS, number("-1.5e-3"))),
    ("x<=.5", compare("x", Op.LESS_OR_EQUAL, number(".5"))),
    ("x>0", compare("x", Op.GREATER, number("0"))),
    ("x>=9007199254740993", compare("x", Op.GREATER_OR_EQUAL, number("9007199254740993"))),
    ("x>abc", compare("x", Op.GREATER, Text("abc"))),
    ('x<"5"', compare("x", Op.LESS, Text("5", quoted=True))),
    ("x=007", equal("x", "007")),
    ("x=+4930", equal("x", "+4930")),
    ("x=5.", equal("x", "5.")),
    ("x=1_000", equal("x", "1_000")),
    ("x=0x10", equal("x", "0x10")),
    ("x=NaN", equal("x", "NaN")),
    ("x=12e4567", equal("x", "12e4567")),
    ("x=1e-9999999999999999999999", equal("x", "1e-9999999999999999999999")),
    ("x=٣", equal("x", "٣")),
    ("x=*", compare("x", Op.EQUAL, Glob("*"))),
    ("x!=web-?", compare("x", Op.NOT_EQUAL, Glob("web-?"))),
    ('x="*"', compare("x", Op.EQUAL, Text("*", quoted=True))),
    ("x=~^/api/.*", compare("x", Op.MATCH, Regex("^/api/.*"))),
    ('x !~ "a b"', compare("x", Op.NOT_MATCH, Regex("a b"))),
    ("@timestamp=1 _x=2", And((compare("@timestamp", Op.EQUAL, number("1")), compare("_x", Op.EQUAL, number("2"))))),
    ("größe=1", compare("größe", Op.EQUAL, number("1"))),
    ("`user agent`=x", equal("user agent", "x")),
    ("`a``b` = x", equal("a`b", "x")),
    ("`5xx`=x", equal("5xx", "x")),
    ('`"`=x', equal('"', "x")),
]

TIMES: list[tuple[str, TimePoint | None, TimePoint | None]] = [
    ("[,]", None, None),
    ("[ , now]", None, TimePoint(0, relative=True)),
    ("[now-1h,now]", TimePoint(-3_600_000_000, relative=True), TimePoint(0, relative=True)),
    ("[now - 1h30m, now+5m]", TimePoint(-5_400_000_000, relative=True), TimePoint(300_000_000, relative=True)),
    ("[now-1w2d3h4m5s6ms7us,]", TimePoint(-788_645_006_007, relative=True), None),
    ("[1970-01-02,]", TimePoint(86_400_000_000), None),
    ("[1970-01-01T00:00:01Z,]", TimePoint(1_000_000), None),
    ("[1970-01-01t00:00:01z,]", TimePoint(1_000_000), None),
    ("[1970-01-01 00:01,]", TimePoint(60_000_000), None),
    ("[1970-01-01 00:00:01 +01:00,]", TimePoint(-3_599_000_000), None),
    ("[1970-01-01T00:00:00-0130,]", TimePoint(5_400_000_000), None),
    ("[1970-01-01T00:00:00.1234567899Z,]", TimePoint(123_456), None),
    ("[1969-12-31T23:59:59.5,]", TimePoint(-500_000), None),
    ("[,1700000000]", None, TimePoint(1_700_000_000_000_000)),
    ("[-1.5,1.000001]", TimePoint(-1_500_000), TimePoint(1_000_001)),
    ("[5,5]", TimePoint(5_000_000), TimePoint(5_000_000)),
    ("[now, 1970-01-01]", TimePoint(0, relative=True), TimePoint(0)),
]

PRECEDENCE: list[tuple[str, Condition]] = [
    ("a b", And((A, B))),
    ("a and b", And((A, B))),
    ("a AND b and c d", And((A, B, C, D))),
    ("a or b OR c", Or((A, B, C))),
    ("a or b c", Or((A, And((B, C))))),
    ("a b or c", Or((And((A, B)), C))),
    ("(a or b) c", And((Or((A, B)), C))),
    ("a (b)", And((A, B))),
    ("(a)(b)", And((A, B))),
    ("(a b) c", And((And((A, B)), C))),
    ("((a))", A),
    ("not a b", And((Not(A), B))),
    ("not (a b)", Not(And((A, B)))),
    ("not(a)", Not(A)),
    ("a and(b)or(c)", Or((And((A, B)), C))),
    ("!a", Not(A)),
    ("! a", Not(A)),
    ("a !b", And((A, Not(B)))),
    ("not NOT ! a", Not(Not(Not(A)))),
    ("a or not b and c", Or((A, And((Not(B), C))))),
    ("!x=1", Not(compare("x", Op.EQUAL, number("1")))),
    ("x=y a", And((equal("x", "y"), A))),
    ("x=y (a)", And((equal("x", "y"), A))),
    ("[,]a [,]", And((TimeRange(None, None), A, TimeRange(None, None)))),
    ("* a", And((Everything(), A))),
]

KEYWORDS: list[tuple[str, Condition]] = [
    ("and=1", compare("and", Op.EQUAL, number("1"))),
    ("a or=b", And((A, equal("or", "b")))),
    ("not=a", equal("not", "a")),
    ("NOT!=a", compare("NOT", Op.NOT_EQUAL, Text("a"))),
    ("`and` = 1", compare("and", Op.EQUAL, number("1"))),
    ('a and =~"x"', And((A, Contains(Regex("x"))))),
    ('a or =~"x"', Or((A, Contains(Regex("x"))))),
    ('not =~"x"', Not(Contains(Regex("x")))),
    ('a =~"x"', compare("a", Op.MATCH, Regex("x"))),
    ('and=~"x"', compare("and", Op.MATCH, Regex("x"))),
    ("a And b", And((A, word("And"), B))),
    ("android oral nothing", And((word("android"), word("oral"), word("nothing")))),
    ('"and"', phrase("and")),
    ("by as desc count", And((word("by"), word("as"), word("desc"), word("count")))),
]


def counted(name: str = "count") -> Aggregate:
    return Aggregate(AggregateOp.COUNT, None, name)


def aggregate(op: AggregateOp, field: str, name: str | None = None) -> Aggregate:
    return Aggregate(op, Field(field), name or f"{op}_{field}")


STAGES: list[tuple[str, tuple[Stage, ...]]] = [
    ("| count()", (Summarize((counted(),)),)),
    ("|count( )", (Summarize((counted(),)),)),
    ("| Count() As n", (Summarize((counted("n"),)),)),
    ("| count() as `how many`", (Summarize((counted("how many"),)),)),
    ("| count(a.b)", (Summarize((aggregate(AggregateOp.COUNT, "a.b"),)),)),
    (
        "| sum(a), avg(a) as mean, min(a), max(`b c`) by level, http.status",
        (
            Summarize(
                (
                    aggregate(AggregateOp.SUM, "a"),
                    aggregate(AggregateOp.AVG, "a", "mean"),
                    aggregate(AggregateOp.MIN, "a"),
                    aggregate(AggregateOp.MAX, "b c"),
                ),
                (Field("level"), Field("http.status")),
            ),
        ),
    ),
    ("| count() by by", (Summarize((counted(),), (Field("by"),)),)),
    ("| count() as by by as", (Summarize((counted("by"),), (Field("as"),)),)),
    ("| sort a", (Sort((SortKey(Field("a")),)),)),
    ("| sort -r a, b asc", (Sort((SortKey(Field("a"), True), SortKey(Field("b")))),)),
    ("| sort a DESC,b", (Sort((SortKey(Field("a"), True), SortKey(Field("b")))),)),
    ("| sort desc desc, asc", (Sort((SortKey(Field("desc"), True), SortKey(Field("asc")))),)),
    ("| head | tail", (Head(10), Tail(10))),
    ("| head 0 | tail 1000000000", (Head(0), Tail(1_000_000_000))),
    ("| head 005", (Head(5),)),
    ("| cut a, `b c`", (Cut((Field("a"), Field("b c"))),)),
    ("| fields a", (Cut((Field("a"),)),)),
    ("| fields", (ListFields(),)),
    ("| fields | sort -r count | head 3", (ListFields(), Sort((SortKey(Field("count"), True),)), Head(3))),
    ("| uniq | uniq -c", (Uniq(), Uniq(counted=True))),
    ("| SORT a | HEAD", (Sort((SortKey(Field("a")),)), Head(10))),
    ("| count() by a | sort a.b", (Summarize((counted(),), (Field("a"),)), Sort((SortKey(Field("a.b")),)))),
    ("| cut a.b | sort a.b", (Cut((Field("a.b"),)), Sort((SortKey(Field("a.b")),)))),
    ("| uniq -c | sort count", (Uniq(counted=True), Sort((SortKey(Field("count")),)))),
    (
        "| count() as n by a | uniq -c | sort count",
        (Summarize((counted("n"),), (Field("a"),)), Uniq(counted=True), Sort((SortKey(Field("count")),))),
    ),
    ("| count()\n| head\n", (Summarize((counted(),)), Head(10))),
]


@pytest.mark.parametrize("text, condition", TERMS)
def test_a_term_is_understood(text: str, condition: Condition) -> None:
    assert parse_search(text) == Search(condition)


@pytest.mark.parametrize("text, start, end", TIMES)
def test_a_range_of_times_is_understood(text: str, start: TimePoint | None, end: TimePoint | None) -> None:
    assert parse_search(text).condition == TimeRange(start, end)


@pytest.mark.parametrize("text, condition", PRECEDENCE)
def test_not_binds_closer_than_and_and_and_closer_than_or(text: str, condition: Condition) -> None:
    assert parse_search(text).condition == condition


@pytest.mark.parametrize("text, condition", KEYWORDS)
def test_a_keyword_is_one_only_where_a_condition_may_stand_and_no_operator_follows_at_once(
    text: str, condition: Condition
) -> None:
    assert parse_search(text).condition == condition


@pytest.mark.parametrize("text, stages", STAGES)
def test_stages_are_understood(text: str, stages: tuple[Stage, ...]) -> None:
    assert parse_search(text) == Search(Everything(), stages)
    assert parse_search("a " + text) == Search(A, stages)


@pytest.mark.parametrize(
    "written, text",
    [
        (r'"a\"b"', 'a"b'),
        (r"'a\'b'", "a'b"),
        (r"""'a"b'""", 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r'"\\"', "\\"),
        (r'"\n\t\r\/"', "\n\t\r/"),
        (r'"\u00e9\u00E9"', "éé"),
        (r'"\ud83d\ude00!"', "😀!"),
        (r'"\u0000"', "\x00"),
        ('"a\nb"', "a\nb"),
        ('"😀"', "😀"),
        (r'"\\u00e9"', "\\u00e9"),
    ],
)
def test_escapes_in_quotes_are_those_of_json(written: str, text: str) -> None:
    assert parse_search(written) == Search(phrase(text))
    assert parse_search(f"x={written}") == Search(compare("x", Op.EQUAL, Text(text, quoted=True)))


@pytest.mark.parametrize(
    "written, pattern",
    [
        (r'"\d+\.\d"', r"\d+\.\d"),
        (r'"a\"b"', 'a"b'),
        (r'"a\'b"', "a'b"),
        (r"""'a"b'""", 'a"b'),
        (r'"\\"', r"\\"),
        (r'"\\\""', r"\\" + '"'),
        (r'"\n\t"', r"\n\t"),
        (r'"\x{e9}"', r"\x{e9}"),
        (r'"[(?<]\(?<\Q(?<\E"', r"[(?<]\(?<\Q(?<\E"),
        (r'"[](?<][^](?<][[:alpha:](?<][\](?<]"', r"[](?<][^](?<][[:alpha:](?<][\](?<]"),
        (r'"(?P<name>a)"', "(?P<name>a)"),
    ],
)
def test_backslashes_in_an_expression_are_its_own(written: str, pattern: str) -> None:
    assert parse_search(f"x=~{written}") == Search(compare("x", Op.MATCH, Regex(pattern)))
    assert parse_search(f"~{written}") == Search(Contains(Regex(pattern)))


def test_a_tree_keeps_the_text_it_was_made_from() -> None:
    assert parse_search(" a | head ").text == " a | head "
