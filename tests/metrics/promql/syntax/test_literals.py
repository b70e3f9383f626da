"""Numbers, durations as numbers, and strings."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.syntax.ast import NumberLiteral, StringLiteral
from quarterdeck.metrics.promql.syntax.numerals import parse_number
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.quoting import quote


@pytest.mark.parametrize(
    "text, value",
    [
        ("1", 1.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("5e-3", 0.005),
        ("5E3", 5000.0),
        ("1e+3", 1000.0),
        ("0xc", 12.0),
        ("0XFf", 255.0),
        ("0x_1f", 31.0),
        ("0x1e5", 485.0),
        ("0xDEADBEEF", 3735928559.0),
        ("0xc7e", 3198.0),
        ("0x11e_0", 4576.0),
        ("0755", 493.0),
        ("-0755", -493.0),
        ("0_7", 7.0),
        ("08", 8.0),
        ("0_8", 8.0),
        ("00.5", 0.5),
        ("1_000", 1000.0),
        ("1_0.2_5e1_0", 10.25e10),
        ("9223372036854775808", 2.0**63),
        ("Inf", math.inf),
        ("+inF", math.inf),
        ("-INF", -math.inf),
        ("-0", -0.0),
        ("5m", 300.0),
        ("1h30m5s7ms", 5405.007),
        ("-1d", -86400.0),
        ("0s", 0.0),
    ],
)
def test_a_number_has_the_value_that_go_gives_it(text: str, value: float) -> None:
    tree = parse(text)
    assert isinstance(tree, NumberLiteral)
    assert struct.pack(">d", tree.value) == struct.pack(">d", value)
    assert tree.as_duration == (text[-1] in "smd")


@pytest.mark.parametrize("text", ["nan", "NaN", "-NAN", "+nan"])
def test_not_a_number_is_one_value_with_and_without_sign(text: str) -> None:
    assert parse(text) == NumberLiteral(math.nan)


@pytest.mark.parametrize(
    "text, value",
    [
        (r'"a \" b"', 'a " b'),
        (r"'a \' b'", "a ' b"),
        ('"it\'s"', "it's"),
        ("'say \"a\"'", 'say "a"'),
        (r"`\a` ", r"\a"),
        ("`a\nb`", "a\nb"),
        (r'"\a\b\f\n\r\t\v\\"', "\a\b\f\n\r\t\v\\"),
        (r'"\u1234\U00010111☺"', "\u1234\U00010111☺"),
        (r'"\x41\101"', "AA"),
        (r'"\xc3\xa9"', "é"),
        (r'"\xff\377"', "\udcff\udcff"),
        (r'"\ufffd"', "\ufffd"),
    ],
)
def test_a_string_is_what_its_escapes_say(text: str, value: str) -> None:
    assert parse(text) == StringLiteral(value)


@given(st.text(st.characters(exclude_characters="\ufffd")))
def test_a_quoted_string_reads_as_the_string_again(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert parse(quote(text)) == StringLiteral(text)


@given(st.binary())
def test_bytes_that_are_no_text_survive_quoting(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape").replace("\ufffd", "")
    assert parse(quote(text)) == StringLiteral(text)


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_printed_number_reads_as_the_same_number(value: float) -> None:
    shown = show_float(value)
    assert "e" not in shown
    assert parse_number(shown) == value
