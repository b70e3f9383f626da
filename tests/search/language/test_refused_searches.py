"""Texts that are no searches: what is wrong, where, and what to do."""

import copy
import pickle

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.search.language.ast import Span
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.parser import parse_search

_STAGES = "write one of cut, fields, head, sort, tail, uniq, count(), sum(), avg(), min(), max()"
_VALUE = "write one there, in quotes if it has blanks or marks in it"
_BLANK = "put a blank between them, or all of it into one pair of quotes"
_RE2 = "correct it; expressions are those of RE2 (https://github.com/google/re2/wiki/Syntax)"
_RANGE = "write a range as in [now-1h, now] or [2026-01-31, ]"
_TIME = "write it as in 2026-01-31, 2026-01-31T12:00:00Z, 1769860800 (seconds since 1970), now or now-1h30m"
_COUNT = "write a whole number from 0 to 1000000000"
_NAME = "put it in backquotes if a field is called so; names without them have letters, digits and _ @ . -"
_ESCAPES = r"""write a backslash as \\; the others are \" \' \/ \n \r \t \uXXXX (two of these above FFFF)"""
_CLOSE = "close it with {0}, or write a {0} that is part of a text within quotes of the other kind"

# The second line of each is the text again with the carets below it.
CONDITIONS = [
    ("a and", "     ^", "expected a condition, found the end", "write one there"),
    ("a and | head", "      ^", "expected a condition, found `|`", "write one there"),
    ("a or or b", "     ^^", "expected a condition, found `or`", 'write one there; the word itself is "or", in quotes'),
    ("AND b", "^^^", "expected a condition, found `AND`", 'write one there; the word itself is "AND", in quotes'),
    ("not", "   ^", "expected a condition, found the end", "write one there"),
    ("a !  ", "   ^", "expected a condition, found the end", "write one there"),
    ("()", " ^", "expected a condition, found `)`", "write one there"),
    ("(a", "^", "this parenthesis is not closed before the end", "close it with )"),
    ("b ((a) | head", "  ^", "this parenthesis is not closed before `|`", "close it with )"),
    ("a) b", " ^", "this parenthesis closes nothing", "leave it out, or open one before it"),
    (")", "^", "expected a condition, found `)`", "write one there"),
    ("a, b", " ^", "expected a condition, found `,`", "write one there"),
    ("a ]", "  ^", "expected a condition, found `]`", "write one there"),
    ("it's", "  ^", "a quoted text begins here and does not end", _CLOSE.format("'")),
    ('a "b\\"', "  ^", "a quoted text begins here and does not end", _CLOSE.format('"')),
    ("`a``=1", "^", "a name in backquotes begins here and does not end", "close it with `"),
    ('foo"x"', "   ^^^", '`foo` and `"x"` stand together without a blank', _BLANK),
    ("\"x\"'y'", "   ^^^", "`\"x\"` and `'y'` stand together without a blank", _BLANK),
    ('"x"y', "   ^", '`"x"` and `y` stand together without a blank', _BLANK),
    ("hello!world", "     ^", "`hello` and `!` stand together without a blank", _BLANK),
    ("tags[0]=1", "    ^", "`tags` and `[` stand together without a blank", _BLANK),
    (
        "count() by level",
        "^^^^^^",
        "`count(` is not a condition",
        "put a | before it if it is a stage, a blank behind the word if not",
    ),
    (
        "`a` b",
        "    ^",
        "expected a comparison after the field `a`, found `b`",
        "write one, such as =* for any value",
    ),
    ("~ a", "  ^", "expected a regular expression in quotes after `~`, found `a`", "write one there"),
    ("=~ a", "   ^", "expected a regular expression in quotes after `=~`, found `a`", "write one there"),
    (
        "a and = 5",
        "      ^",
        "expected a condition, found `=`",
        "write a field's name before it; one called `and`, `or` or `not` goes in backquotes",
    ),
    ('"\\d"', " ^^", "`\\d` means nothing in a quoted text", _ESCAPES),
    ('"a\\u12g4"', "  ^^", "`\\u` means nothing in a quoted text", _ESCAPES),
    ('"\\ud83d"', " ^^^^^^", "`\\ud83d` means nothing in a quoted text", _ESCAPES),
    ('"\\ud83d\\u0041"', " ^^^^^^", "`\\ud83d` means nothing in a quoted text", _ESCAPES),
    ('"\\ude00"', " ^^^^^^", "`\\ude00` means nothing in a quoted text", _ESCAPES),
]

COMPARISONS = [
    ("level=", "      ^", "expected a value after `=`, found the end", _VALUE),
    ("level = | head", "        ^", "expected a value after `=`, found `|`", _VALUE),
    ("x=`a`", "  ^^^", "expected a value after `=`, found `a`", _VALUE),
    ("x=(a)", "  ^", "expected a value after `=`, found `(`", _VALUE),
    ("x===a", "   ^", "expected a value after `==`, found `=`", _VALUE),
    ("x=~", "   ^", "expected a regular expression after `=~`, found the end", _VALUE),
    (
        "a=b=c",
        "   ^",
        "found `=` right after the value `b`",
        "put a value that has such marks in it into quotes",
    ),
    ("x=a(b)", "   ^", "`a` and `(` stand together without a blank", _BLANK),
    ('x="a"b', "     ^", '`"a"` and `b` stand together without a blank', _BLANK),
    ("x=a!", "   ^", "`a` and `!` stand together without a blank", _BLANK),
    (
        '"a b"=1',
        "^^^^^",
        "a quoted text is not the name of a field",
        "put the field's name in backquotes, or a blank and a ~ before an expression that is not a value",
    ),
    ("5xx=1", "^^^", "`5xx` is not the name of a field without backquotes", _NAME),
    ("a/b=1", "^^^", "`a/b` is not the name of a field without backquotes", _NAME),
    ("*=1", "^", "`*` is not the name of a field without backquotes", _NAME),
    ("``=1", "^^", "the name of a field is empty", "write the name between the backquotes"),
    (
        "x<a*",
        "  ^^",
        "`a*` has wildcards, which `<` cannot compare with",
        "use = or !=, or put it in quotes to have it to the letter",
    ),
    (
        "x<1e400",
        "  ^^^^^",
        "`1e400` is beyond the numbers that can be compared",
        "put it in quotes to compare it as a text",
    ),
    (
        "x>=1e-5000",
        "   ^^^^^^^",
        "`1e-5000` is beyond the numbers that can be compared",
        "put it in quotes to compare it as a text",
    ),
]

EXPRESSIONS = [
    ('x =~ "a(b"', "      ^^^", "the regular expression is not valid: missing )", _RE2),
    ('x=~"a[b"', "     ^^", "the regular expression is not valid: missing ]", _RE2),
    ('x=~"ab{2000}c"', "      ^^^^^^", "the regular expression is not valid: invalid repetition size", _RE2),
    ('x=~"\\""  ~"a**"', "            ^^", "the regular expression is not valid: bad repetition operator", _RE2),
    ("x=~a\\", "   ^^", "the regular expression is not valid: trailing \\", _RE2),
    ('~"(?=a)"', "  ^^^", "the regular expression is not valid: invalid perl operator", _RE2),
    ('~"[a](?<n>b)"', "     ^^^", "the regular expression is not valid: invalid perl operator", _RE2),
    ('~"é\\u00e9"', "   ^^", "the regular expression is not valid: invalid escape sequence", _RE2),
    ('~"\\pL{500}"', " ^^^^^^^^^^", "the regular expression is not valid: pattern too large - compile failed", _RE2),
]

TIMES = [
    ("[now]", "    ^", "expected `,` between the start and the end of a range of times, found `]`", _RANGE),
    ("[", " ^", "expected `,` between the start and the end of a range of times, found the end", _RANGE),
    ("[now,now", "        ^", "expected `]` after the end of a range of times, found the end", _RANGE),
    ("[now,now,now]", "        ^", "expected `]` after the end of a range of times, found `,`", _RANGE),
    ('["now",]', " ^^^^^", 'expected `,` between the start and the end of a range of times, found `"now"`', _RANGE),
    (
        "[2026-13-01,]",
        " ^^^^^^^^^^",
        "`2026-13-01` was not understood as a time: month must be in 1..12",
        _TIME,
    ),
    ("[ yesterday,]", "  ^^^^^^^^^", "`yesterday` was not understood as a time: it is not a time", _TIME),
    ("[,now-1x]", "  ^^^^^^", "`now-1x` was not understood as a time: it is not a time", _TIME),
    ("[,now-]", "  ^^^^", "`now-` was not understood as a time: it is not a time", _TIME),
    ("[,now-1.5h]", "  ^^^^^^^^", "`now-1.5h` was not understood as a time: it is not a time", _TIME),
    (
        "[,now-11000000d]",
        "  ^^^^^^^^^^^^^",
        "`now-11000000d` was not understood as a time: it is more than 10,000 years away",
        _TIME,
    ),
    (
        "[1700000000000,]",
        " ^^^^^^^^^^^^^",
        "`1700000000000` was not understood as a time: so many seconds since 1970 are too far away",
        _TIME,
    ),
    (
        "[100000000000,]",
        " ^^^^^^^^^^^^",
        "`100000000000` was not understood as a time: so many seconds since 1970 are too far away",
        _TIME,
    ),
    (
        "[0001-01-01T00:00:00+01:00,]",
        " " + "^" * 25,
        "`0001-01-01T00:00:00+01:00` was not understood as a time: it is outside the years 1 to 9999",
        _TIME,
    ),
    (
        "[2026-01-01T00:00:00+24:00,]",
        " " + "^" * 25,
        "`2026-01-01T00:00:00+24:00` was not understood as a time: its offset from UTC is a day or longer",
        _TIME,
    ),
    ("[now,now-1h]", "^" * 12, "the range of times ends before it begins", "swap its start and its end"),
    ("[2026-01-02,2026-01-01]", "^" * 23, "the range of times ends before it begins", "swap its start and its end"),
]

STAGES = [
    ("a |", "   ^", "expected a stage after `|`, found the end", _STAGES),
    ("| | head", "  ^", "expected a stage after `|`, found `|`", _STAGES),
    ("| tial 5", "  ^^^^", "there is no stage `tial`", "perhaps tail is meant"),
    ("| cont() by x", "  ^^^^", "there is no function `cont`", "perhaps count() is meant"),
    ("| xyz()", "  ^^^", "there is no function `xyz`", "there are count(), sum(), avg(), min(), max()"),
    ("| xyz", "  ^^^", "there is no stage `xyz`", _STAGES),
    (
        "a=~x|y",
        "     ^",
        "there is no stage `y`",
        _STAGES + "; a | that is part of a value goes into quotes with it",
    ),
    ("| count by level", "  ^^^^^", "`count` lacks its parentheses", "write count()"),
    ("| Sum bytes", "  ^^^", "`Sum` lacks its parentheses", "write sum(FIELD)"),
    ("| sum()", "      ^", "sum() needs the name of a field", "write it as in sum(bytes)"),
    ("| count(*)", "        ^", "`*` is not a field", "leave it out: count() counts all records"),
    ("| max(*)", "      ^", "`*` is not a field", "name a field"),
    ("| sum(a", "       ^", "expected `)` after the field of `sum`, found the end", "write it as in sum(bytes)"),
    ("| sum(a, b)", "       ^", "expected `)` after the field of `sum`, found `,`", "write it as in sum(bytes)"),
    ("| sum(a), max", "             ^", "expected `(` after `max`, found the end", "write it as in max(bytes)"),
    (
        "| count(),",
        "          ^",
        "expected a function after the comma, found the end",
        "write one of count(), sum(), avg(), min(), max()",
    ),
    (
        "| count() as | head",
        "             ^",
        "expected a name for the result after `as`, found `|`",
        "name a field, as in `level` or `http.status`",
    ),
    (
        "| count(), count()",
        "           ^^^^^^^",
        "the result `count` is called like another result",
        "give it another name with `as`",
    ),
    (
        "| count() as a by b, a",
        "  ^^^^^^^^^^^^",
        "the result `a` is called like a group",
        "give it another name with `as`",
    ),
    ("| count() by a, b, a", "                   ^", "the field `a` is named twice", "name it once"),
    ("| cut a, a", "         ^", "the field `a` is named twice", "name it once"),
    (
        "| cut a b",
        "        ^",
        "expected `|` before the next stage, found `b`",
        "separate stages with | and names with commas",
    ),
    (
        "| head 5 6",
        "         ^",
        "expected `|` before the next stage, found `6`",
        "separate stages with | and names with commas",
    ),
    (
        "| cut",
        "     ^",
        "expected the name of a field, found the end",
        "name a field, as in `level` or `http.status`",
    ),
    (
        "| sort a,",
        "         ^",
        "expected the name of a field, found the end",
        "name a field, as in `level` or `http.status`",
    ),
    (
        '| cut "a b"',
        "      ^^^^^",
        "expected the name of a field, found a quoted text",
        "put the name in backquotes instead",
    ),
    (
        "| sort -bytes",
        "       ^^^^^^",
        "expected the name of a field, found `-bytes`",
        "write bytes desc, or -r once after `sort`",
    ),
    (
        "| sort a, -r b",
        "          ^^",
        "expected the name of a field, found `-r`",
        "write r desc, or -r once after `sort`",
    ),
    ("| head -5", "       ^^", "`-5` is not a number of records", _COUNT),
    ("| tail 1e3", "       ^^^", "`1e3` is not a number of records", _COUNT),
    ("| head 1000000001", "       ^^^^^^^^^^", "`1000000001` is not a number of records", _COUNT),
    ("| head ٣", "       ^", "`٣` is not a number of records", _COUNT),
]

ROWS = [
    (
        "| count() by x | sort y",
        "                      ^",
        "the stage before leaves no field `y`",
        "there is `x`, `count`",
    ),
    ("| sum(a) | cut a", "               ^", "the stage before leaves no field `a`", "there is `sum_a`"),
    (
        "| fields | cut name",
        "               ^^^^",
        "the stage before leaves no field `name`",
        "there is `field`, `count`",
    ),
    (
        "| count() as n | head | max(count)",
        " " * 28 + "^^^^^",
        "the stage before leaves no field `count`",
        "there is `n`",
    ),
    (
        "| fields | count() by level",
        " " * 22 + "^^^^^",
        "the stage before leaves no field `level`",
        "there is `field`, `count`",
    ),
    ("| cut a, b | sort c", "                  ^", "the stage before leaves no field `c`", "there is `a`, `b`"),
    ("| cut a.b | sort a", "                 ^", "the stage before leaves no field `a`", "there is `a.b`"),
    ("| cut ab | sort a.b", "                ^^^", "the stage before leaves no field `a.b`", "there is `ab`"),
    (
        "| count() by a | uniq -c",
        "                 ^^^^^^^",
        "the rows have a field `count` already, as uniq -c would call its own",
        "name the other one differently with `as`, or leave out -c",
    ),
    (
        "| cut " + ",".join(f"f{index}" for index in range(30)) + "\n| sort x",
        "       ^",
        "the stage before leaves no field `x`",
        "there is " + ", ".join(f"`f{index}`" for index in range(20)) + ", ...",
    ),
]


@pytest.mark.parametrize(
    "text, carets, reason, next_step", [*CONDITIONS, *COMPARISONS, *EXPRESSIONS, *TIMES, *STAGES, *ROWS]
)
def test_what_is_wrong_is_told_with_its_place(text: str, carets: str, reason: str, next_step: str) -> None:
    with pytest.raises(SearchSyntaxError) as caught:
        parse_search(text)
    line, column = text.count("\n") + 1, carets.index("^") + 1
    assert str(caught.value).split("\n") == [
        f"the search was not understood: line {line}, column {column}: {reason}; {next_step}:",
        f"  {text.splitlines()[-1]}",
        f"  {carets}",
    ]
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "text, line, column, shown, carets",
    [
        ("a\nb\n  c=", 3, 5, "  c=", "    ^"),
        ("a\n  | haed\n| tail", 2, 5, "  | haed", "    ^^^^"),
        ("größe=日本 x=", 1, 12, "größe=日本 x=", "           ^"),
        ("😀 (", 1, 4, "😀 (", "   ^"),
        ("\tx=\t|", 1, 5, " x= |", "    ^"),
        ("a=\n\n", 1, 3, "a=", "  ^"),
        ('"a\nb', 1, 1, '"a', "^"),
    ],
)
def test_lines_and_columns_are_counted_in_characters(
    text: str, line: int, column: int, shown: str, carets: str
) -> None:
    with pytest.raises(SearchSyntaxError) as caught:
        parse_search(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).split("\n")[1:] == [f"  {shown}", f"  {carets}"]


@pytest.mark.parametrize("text, column", [("a \ud800", 3), ('x="\udfff"', 4), ("`\ud83d\ude00`=1", 2)])
def test_half_a_character_is_refused(text: str, column: int) -> None:
    with pytest.raises(SearchSyntaxError, match="half a character") as caught:
        parse_search(text)
    assert caught.value.column == column
    str(caught.value).encode()


def test_an_error_survives_copying_and_pickling() -> None:
    error = SearchSyntaxError("reason", "a\nb", Span(2, 3), "next")
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(copied), copied.line, copied.column, copied.span) == (str(error), 2, 1, Span(2, 3))
