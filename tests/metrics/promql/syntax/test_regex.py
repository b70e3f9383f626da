"""Regular expressions: anchoring, errors, and the templates of `label_replace`."""

import pytest

from quarterdeck.metrics.promql.syntax.regex import InvalidRegex, compile_anchored, compile_matcher


@pytest.mark.parametrize(
    "pattern, text, matches",
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a|b", "ab", False),
        (".*", "a\nb", True),
        ("", "", True),
        ("", "a", False),
        ("a$", "a\n", False),
        ("(?i)A", "a", True),
        ("\\Q[.", "[.", True),
        ("\\Qa|b\\E|c", "c", True),
        ("é+", "éé", True),
        (".", "é", True),
        ("a", "\udcff", False),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, text: str, matches: bool) -> None:
    assert compile_anchored(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern, reason",
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("a)(?:b", "unexpected ): `a)(?:b`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("a(?<!b>c)d", "invalid named capture: `(?<!b>`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("\udcff", "invalid UTF-8: `\udcff`"),
        ("a\\Cb", "invalid escape sequence: `\\C`"),
        ("\\Q\\C\\E\\C", "invalid escape sequence: `\\C`"),
        ("[\\C]", "invalid escape sequence: `\\C`"),
    ],
)
def test_a_bad_pattern_is_refused_in_the_words_of_go(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidRegex) as caught:
        compile_anchored(pattern)
    assert str(caught.value) == f"error parsing regexp: {reason}"
    assert capfd.readouterr() == ("", ""), "RE2 must not write to the process's streams"


@pytest.mark.parametrize("pattern", ["\\Q\\C\\E", "\\\\C", "\\Q\\C"])
def test_what_only_looks_like_any_byte_is_text(pattern: str) -> None:
    assert compile_anchored(pattern).matches("\\C")


@pytest.mark.parametrize(
    "pattern, text, matches",
    [
        ("\udcff", "\udcff", True),
        ("a|\udcff\udcfe|", "\udcff\udcfe", True),
        ("a|\udcff\udcfe|", "", True),
        ("a|b", "a|b", False),
        ("a|b", "A", False),
        ("a.|b", "ax", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_texts_with_bars_between_need_not_be_utf_8_in_a_matcher(pattern: str, text: str, matches: bool) -> None:
    assert compile_matcher(pattern).matches(text) is matches


def test_a_regular_expression_in_a_matcher_has_to_be_utf_8() -> None:
    with pytest.raises(InvalidRegex, match="invalid UTF-8"):
        compile_matcher("[\udcff]")


def test_groups_are_those_of_the_match_of_the_whole_text() -> None:
    pattern = compile_anchored("(a|ab)(c|bcd)(d*)(x)?")
    assert pattern.groups("abcd") == ("abcd", "a", "bcd", "", None)
    assert pattern.groups("nothing") is None


@pytest.mark.parametrize(
    "template, expanded",
    [
        ("$1-$2", "web-eu"),
        ("${1}0", "web0"),
        ("$10", ""),
        ("$1x", ""),
        ("$zone/${zone}!", "eu/eu!"),
        ("$0", "web.eu"),
        ("$$1", "$1"),
        ("$", "$"),
        ("$-", "$-"),
        ("${}", "${}"),
        ("${1", "${1"),
        ("${1 }", "${1 }"),
        ("$01", ""),
        ("$nobody.", "."),
        ("$1_", ""),
        ("$3", ""),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_template_expands_as_in_go(template: str, expanded: str) -> None:
    assert compile_anchored(r"(\w+)\.(?P<zone>\w+)(x)?").expand(template, "web.eu") == expanded


def test_a_template_expands_to_nothing_when_the_text_does_not_match() -> None:
    assert compile_anchored("a").expand("$0", "b") is None
