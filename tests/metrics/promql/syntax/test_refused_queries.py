"""Queries that are none, with the place and the words that Prometheus has for each."""

import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.syntax.parser import parse

_OFFSET = "offset modifier must be preceded by an instant vector selector or range vector selector or a subquery"
_AT = "@ modifier must be preceded by an instant vector selector or range vector selector or a subquery"

_LENGTHS = "number, duration, step(), or range()"

CHARACTERS = [
    (" ", 1, "no expression found in input"),
    ("# just a comment\n\n", 1, "no expression found in input"),
    (".", 1, "unexpected character: '.'"),
    ("}", 1, "unexpected character: '}'"),
    ("some}", 5, "unexpected character: '}'"),
    ("foo ~ bar", 5, "unexpected character: '~'"),
    ("föö", 2, "unexpected character: 'ö'"),
    ("foo\ud800", 4, "unexpected character: '\\ud800'"),
    ("1 !~ 1", 3, "unexpected character after '!': '~'"),
    ("1 =~ 1", 3, "unexpected character after '=': '~'"),
    ("1 !", 3, "unexpected character after '!': '\ufffd'"),
    ("(1))", 5, "unexpected right parenthesis ')'"),
    ("((1)", 5, "unclosed left parenthesis"),
    ("(", 2, "unclosed left parenthesis"),
    ("foo]", 4, "unexpected right bracket ']'"),
    ("foo[5m", 7, "unclosed left bracket"),
    ("foo[5m[", 7, "unexpected left bracket '['"),
    ("{", 2, "unexpected end of input inside braces"),
    ("some{", 6, "unexpected end of input inside braces"),
    ("some{ # comment", 16, "unexpected end of input inside braces"),
    ("foo{{", 5, "unexpected left brace '{'"),
    ('some_metric{a:b="b"}', 14, "unexpected character inside braces: ':'"),
    ('foo{a*"b"}', 6, "unexpected character inside braces: '*'"),
    ('foo{a>="b"}', 6, "unexpected character inside braces: '>'"),
    ("foo{1}", 5, "unexpected character inside braces: '1'"),
    ('foo{a!"b"}', 6, "unexpected character after '!' inside braces: '\"'"),
]

NUMBERS = [
    ("2.5.", 1, 'bad number or duration syntax: "2.5."'),
    ("100..4", 1, 'bad number or duration syntax: "100.."'),
    ("0deadbeef", 1, 'bad number or duration syntax: "0de"'),
    ("1x", 1, 'bad number or duration syntax: "1"'),
    ("0o17", 1, 'bad number or duration syntax: "0"'),
    ("0x1.8", 1, 'bad number or duration syntax: "0x1."'),
    ("1e1e1", 1, 'bad number or duration syntax: "1e1e"'),
    ("1e", 1, 'bad number or duration syntax: "1e"'),
    ("1__0", 1, 'bad number or duration syntax: "1__"'),
    ("1_", 1, 'bad number or duration syntax: "1_"'),
    ("1e ", 1, 'error parsing number: strconv.ParseFloat: parsing "1e": invalid syntax'),
    ("1_ ", 1, 'error parsing number: strconv.ParseFloat: parsing "1_": invalid syntax'),
    ("0x ", 1, 'error parsing number: strconv.ParseFloat: parsing "0x": invalid syntax'),
    ("9e999", 1, 'error parsing number: strconv.ParseFloat: parsing "9e999": value out of range'),
    ("5m1h", 1, 'not a valid duration string: "5m1h"'),
    ("1.5h", 1, 'unknown unit "." in duration "1.5h"'),
    ("0xA5m", 1, 'unknown unit "xA" in duration "0xA5m"'),
    ("0..", 1, 'error parsing number: strconv.ParseFloat: parsing "0..": invalid syntax'),
    ("0x1e", 1, 'bad number or duration syntax: "0x1e"'),
    ("0x11e+", 7, "unexpected end of input"),
    ("300y", 1, "duration out of range"),
]

STRINGS = [
    ('"foo', 1, "unterminated quoted string"),
    ('"foo\n"', 1, "unterminated quoted string"),
    ("`\\``", 4, "unterminated raw string"),
    ('"\\', 1, "escape sequence not terminated"),
    ('"\\x1', 1, "escape sequence not terminated"),
    ('"\\c"', 1, "unknown escape sequence U+0063 'c'"),
    ('"\\\'"', 1, "unknown escape sequence U+0027 '''"),
    ('"\\x."', 1, "illegal character U+002E '.' in escape sequence"),
    ('"\\09"', 1, "illegal character U+0039 '9' in escape sequence"),
    ('"\\400"', 1, "escape sequence is an invalid Unicode code point"),
    ('"\\ud800"', 1, "escape sequence is an invalid Unicode code point"),
    ('"\\U00110000"', 1, "escape sequence is an invalid Unicode code point"),
    ('some_metric{a="\udcff"}', 15, "invalid UTF-8 rune"),
    ("`\ud800`", 1, "invalid UTF-8 rune"),
    ("`\ufffd`", 1, "invalid UTF-8 rune"),
    ('foo{a="b\ufffd"}', 7, "invalid UTF-8 rune"),
    ('sum by ("foo)(some_metric{})', 9, "unterminated quoted string"),
]

OPERATORS = [
    ("1+", 3, "unexpected end of input"),
    ("1 /", 4, "unexpected end of input"),
    ("*1", 1, "unexpected <op:*>"),
    ("</ 1", 1, "unexpected <op:</>"),
    ("@@", 1, "unexpected <op:@>"),
    ("-=", 2, 'unexpected "="'),
    ("++-++-+-+-<", 11, "unexpected <op:<>"),
    ("e-+=/(0)", 4, 'unexpected "="'),
    ("atan2", 1, "unexpected <op:atan2>"),
    ("foo bar", 5, 'unexpected identifier "bar"'),
    ("foo a:b", 5, 'unexpected metric identifier "a:b"'),
    ("foo 1", 5, 'unexpected number "1"'),
    ("foo 5m", 5, 'unexpected duration "5m"'),
    ('foo "a rather long string"', 5, 'unexpected string "\\"a rather "...'),
    ('foo "12345678"', 5, 'unexpected string "\\"12345678\\""'),
    ('foo "123456789"', 5, 'unexpected string "\\"123456789"...'),
    ("foo 'ä23456789'", 5, 'unexpected string "\'ä23456789"...'),
    ("foo 'ä234567'", 5, "unexpected string \"'ä234567'\""),
    ("foo 'ä2345678'", 5, "unexpected string \"'ä2345678'\"..."),
    ("foo start", 5, 'unexpected "start"'),
    ("foo Max_Of", 5, 'unexpected "Max_Of"'),
    ("bool", 1, "unexpected <bool>"),
    ("1 + ON", 7, 'unexpected end of input in grouping opts, expected "("'),
    ("a - on(b) ignoring(c) d", 11, "unexpected <ignoring>"),
    ("foo + group_left(baz) bar", 7, "unexpected <group_left>"),
    ("foo + on bar", 10, 'unexpected identifier "bar" in grouping opts, expected "("'),
    ("foo + on(bar baz) bar", 14, 'unexpected identifier "baz" in grouping opts, expected "," or ")"'),
    ("foo + fill(bar) bar", 12, 'unexpected identifier "bar"'),
    ("foo + fill(1) fill(2) bar", 19, 'unexpected "("'),
    ("foo + fill_left(1) fill_left(2) bar", 29, 'unexpected "("'),
    ("fill(1)", 5, 'unexpected "("'),
    ("foo / on(a) group_left", 23, 'unexpected end of input in grouping opts, expected "("'),
    ("foo / on(a) group_right * bar", 25, 'unexpected <op:*> in grouping opts, expected "("'),
    ("foo / on(a) group_left bool bar", 24, 'unexpected <bool> in grouping opts, expected "("'),
]

MATCHERS = [
    ("some_metric{a=b}", 15, 'unexpected identifier "b" in label matching, expected string'),
    ("foo{gibberish}", 14, 'unexpected "}" in label matching, expected label matching operator'),
    ("foo{__name__= =}", 15, 'unexpected "=" in label matching, expected string'),
    ('foo{__name__ == "bar"}', 15, 'unexpected "=" in label matching, expected string'),
    ("foo{,}", 5, 'unexpected "," in label matching, expected identifier or "}"'),
    ('foo{a="b",,}', 11, 'unexpected "," in label matching, expected identifier or "}"'),
    ('foo{__name__="bar" lol}', 20, 'unexpected identifier "lol" in label matching, expected "," or "}"'),
    ('{"foo" "bar"}', 8, 'unexpected string "\\"bar\\"" in label matching, expected "," or "}"'),
    ('foo{"a"=}', 9, 'unexpected "}" in label matching, expected string'),
    ('foo{a=~"(b"}', 5, "error parsing regexp: missing closing ): `(b`"),
    ('foo{a!~"b**"}', 5, "error parsing regexp: invalid nested repetition operator: `**`"),
    ('foo{a=~"b)(?:c"}', 5, "error parsing regexp: unexpected ): `b)(?:c`"),
    ('foo{a=~"(?=b)"}', 5, "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ('foo{"bar"} bar', 12, 'unexpected identifier "bar"'),
]

RANGES = [
    ("foo[", 5, "unexpected end of input in duration expression"),
    ('foo["5m"]', 5, "unexpected character in duration expression: '\"'"),
    ("foo[x]", 5, "unexpected character in duration expression: 'x'"),
    ("foo[:5m]", 6, "unexpected colon before duration in duration expression"),
    ("foo[step:1m]", 10, "unexpected colon before duration in duration expression"),
    ("foo[5m:][:1m]", 10, f'unexpected ":" in subquery or range selector, expected {_LENGTHS}'),
    ("foo[step()::1m]", 13, "unexpected repeated colon in duration expression"),
    ("foo[step", 9, "unexpected end of input in duration expression"),
    ("foo[step() # comment\n]", 12, "unexpected character in duration expression: '#'"),
    ("foo[step() == 1]", 12, "unexpected character in duration expression: '='"),
    ("foo[range2]", 10, f'unexpected number "2" in subquery or range selector, expected {_LENGTHS}'),
    ("foo[]", 5, f'unexpected "]" in subquery or range selector, expected {_LENGTHS}'),
    ("foo[5m x]", 8, "unexpected character: 'x', expected ':'"),
    ("foo[5m:1m:1m]", 10, "unexpected colon ':'"),
    ("foo[5m 1m]", 8, 'unexpected duration "1m" in subquery or range, expected ":" or "]"'),
    ("foo[5m:1m 1m]", 11, 'unexpected duration "1m" in subquery selector, expected "]"'),
    ("foo[5m:,]", 8, 'unexpected "," in subquery selector, expected number, duration, step(), range(), or "]"'),
    ("foo[5mm]", 5, 'bad number or duration syntax: "5mm"'),
    ("foo[5m1]", 5, 'bad number or duration syntax: "5m1"'),
    ("foo[5m:1m1]", 8, 'bad number or duration syntax: "1m1"'),
    ("foo[5y1hs]", 5, 'unknown unit "hs" in duration "5y1hs"'),
    ("foo[5m1m]", 5, 'not a valid duration string: "5m1m"'),
    ("foo[0m]", 5, "duration must be greater than 0"),
    ("foo[-1]", 5, "duration must be greater than 0"),
    ("foo[5m:0]", 8, "duration must be greater than 0"),
    ("foo[0.0001]", 5, "duration must be at least 1ms"),
    ("foo[1e20]", 5, "duration out of range"),
    ("(foo + bar)[5m]", 12, "ranges only allowed for vector selectors"),
    ("rate(food[1m])[1h] offset 1h", 15, "ranges only allowed for vector selectors"),
    ("some_metric OFFSET 1m[5m]", 22, "no offset modifiers allowed before range"),
    ("some_metric @ 1234 [5m]", 20, "no @ modifiers allowed before range"),
    ("some_metric @ end()[5m]", 20, "no @ modifiers allowed before range"),
]

SHIFTS = [
    ("1 offset 1d", 1, _OFFSET),
    ("(foo) offset 1d", 1, _OFFSET),
    ("foo offset 1s offset 2s", 1, "offset may not be set multiple times"),
    ("foo offset", 11, "unexpected end of input in offset, expected number, duration, step(), or range()"),
    ("foo offset bar", 12, 'unexpected identifier "bar" in offset, expected number, duration, step(), or range()'),
    (
        'foo offset "step"',
        12,
        'unexpected string "\\"step\\"" in offset, expected number, duration, step(), or range()',
    ),
    ("foo offset 1mm", 12, 'bad number or duration syntax: "1mm"'),
    ("foo offset Inf", 12, "duration out of range"),
    ("foo offset -1e20", 12, "duration out of range"),
    ("foo offset - -1e20", 15, "duration out of range"),
    ("rate(some_metric[5m]) @ 1234", 1, _AT),
    ("foo @", 6, "unexpected end of input in @, expected timestamp"),
    ("foo @ bar", 7, 'unexpected identifier "bar" in @, expected timestamp'),
    ("foo @ start", 12, "unexpected end of input in @, expected timestamp"),
    ("foo @ start(1)", 13, 'unexpected number "1" in @, expected timestamp'),
    ("foo @ 1 @ 2", 1, "@ <timestamp> may not be set multiple times"),
    ("foo @ start() @ 2", 1, "@ <timestamp> may not be set multiple times"),
    ("foo @ +Inf", 1, "timestamp out of bounds for @ modifier: +Inf"),
    ("foo @ -Inf", 1, "timestamp out of bounds for @ modifier: -Inf"),
    ("foo @ NaN", 1, "timestamp out of bounds for @ modifier: NaN"),
    ("foo @ 9223372036854775808", 1, "timestamp out of bounds for @ modifier: 9223372036854775808.000000"),
]

CALLS = [
    ("a>b()", 3, 'unknown function with name "b"'),
    ("foo(1 +)", 8, 'unexpected ")"'),
    ("START()", 1, 'unknown function with name "START"'),
    ("rate(foo[5m],)", 13, "trailing commas not allowed in function call args"),
    ("rate(foo,,bar)", 9, "trailing commas not allowed in function call args"),
    ("rate(foo, bool)", 9, "trailing commas not allowed in function call args"),
    ("topk(1, atan2)", 7, "trailing commas not allowed in function call args"),
    ("rate(,)", 6, 'unexpected ","'),
    ("sum without(==)(some_metric)", 13, "unexpected <op:==> in grouping opts, expected label"),
    ("sum without(,)(some_metric)", 13, 'unexpected "," in grouping opts, expected label'),
    ("sum without(foo,,)(some_metric)", 17, 'unexpected "," in grouping opts, expected label'),
    ("sum by (inf)(foo)", 9, 'unexpected number "inf" in grouping opts, expected label'),
    ("sum by (without)(foo)", 9, "unexpected <without> in grouping opts, expected label"),
    ('sum by ("\\xff")(foo)', 9, 'invalid label name for grouping: "\\xff"'),
    ('sum by ("")(foo)', 9, 'invalid label name for grouping: ""'),
    ("sum some_metric by (test)", 5, 'unexpected identifier "some_metric"'),
    ("sum (some_metric) by test", 22, 'unexpected identifier "test" in grouping opts, expected "("'),
    ("sum by (test) foo", 15, 'unexpected identifier "foo" in aggregation'),
    ("sum(foo bar)", 9, 'unexpected identifier "bar" in aggregation'),
    ("sum () by (test)", 1, "no arguments for aggregate expression provided"),
    ("sum (some_metric) without (test) by (test)", 34, "unexpected <by>"),
    ("sum without (test) (some_metric) by (test)", 34, "unexpected <by>"),
    (
        "topk(some_metric)",
        1,
        "wrong number of arguments for aggregate expression provided, expected 2, got 1",
    ),
    ("sum(1, foo)", 1, "wrong number of arguments for aggregate expression provided, expected 1, got 2"),
    ("topk(some_metric,)", 17, "trailing commas not allowed in function call args"),
]

EXTENSIONS = [
    ("foo[5m:] anchored", 1, "anchored modifier is not supported for subqueries"),
    ("rate(foo[5m]) smoothed", 1, "smoothed modifier not implemented"),
    ("(foo[5m]) anchored", 1, "anchored modifier not implemented"),
    ("rate(foo[5m] anchored smoothed)", 6, "anchored and smoothed modifiers cannot be used together"),
    ("foo smoothed anchored", 1, "anchored and smoothed modifiers cannot be used together"),
]


@pytest.mark.parametrize(
    "query, column, reason",
    [*CHARACTERS, *NUMBERS, *STRINGS, *OPERATORS, *MATCHERS, *RANGES, *SHIFTS, *CALLS, *EXTENSIONS],
)
def test_a_wrong_query_is_refused_at_its_place_in_prometheus_words(query: str, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query)
    assert caught.value.reason == f"1:{column}: parse error: {reason}"


def test_a_query_without_a_character_has_no_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse("")
    assert caught.value.reason == "unknown position: parse error: no expression found in input"


def test_the_place_counts_lines() -> None:
    with pytest.raises(ParseError) as caught:
        parse("sum(\n  foo +\n  # nothing\n)")
    assert caught.value.reason == '4:1: parse error: unexpected ")" in aggregation'


@pytest.mark.parametrize(
    "query, reason",
    [
        ("first_over_time(foo[5m])", 'function "first_over_time" is not enabled'),
        ("foo + fill(1) bar", "binop fill modifiers are experimental and not enabled"),
        (
            "limitk(1, foo)",
            "limitk() is experimental and must be enabled with --enable-feature=promql-experimental-functions",
        ),
    ],
)
def test_what_is_experimental_can_be_refused(query: str, reason: str) -> None:
    parse(query)
    with pytest.raises(ParseError) as caught:
        parse(query, experimental=False)
    assert caught.value.reason == f"1:1: parse error: {reason}"
