"""The text of a series: what is read, and what is said about what cannot be."""

import pytest

from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.series_text import read_series
from quarterdeck.metrics.promql import labels as lb


@pytest.mark.parametrize(
    "text, labels",
    [
        ("up", {"__name__": "up"}),
        ("a:b_1", {"__name__": "a:b_1"}),
        ("up{}", {"__name__": "up"}),
        ('up{b="2",a="1"}', {"__name__": "up", "a": "1", "b": "2"}),
        ('up{a="1",}', {"__name__": "up", "a": "1"}),
        ('up{ a = "1" , b="2" , }', {"__name__": "up", "a": "1", "b": "2"}),
        ('up{a=""}', {"__name__": "up"}),
        (r'up{a="\\ \" \n"}', {"__name__": "up", "a": '\\ " \n'}),
        (r'up{a="\\n"}', {"__name__": "up", "a": "\\n"}),
        ('up{a="é, } # { 1 2"}', {"__name__": "up", "a": "é, } # { 1 2"}),
        ('{"my.metric"}', {"__name__": "my.metric"}),
        ('{"my.metric","x.y"="1",z="2"}', {"__name__": "my.metric", "x.y": "1", "z": "2"}),
        ('{z="2","my.metric"}', {"__name__": "my.metric", "z": "2"}),
        (r'{"a\"b"}', {"__name__": 'a"b'}),
        ('{__name__="up",a="1"}', {"__name__": "up", "a": "1"}),
    ],
)
def test_a_series_is_read_whole(text: str, labels: dict[str, str]) -> None:
    assert read_series(text) == (lb.from_mapping(labels), len(text))


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "no metric's name"),
        ("{}", "no metric's name"),
        ('{a="1"}', "no metric's name"),
        ('{""}', "no metric's name"),
        ('{"",a="1"}', "no metric's name"),
        ("1up", "no metric's name"),
        ("é", "no metric's name"),
        ('up{a="1",a="2"}', "the label `a` appears twice"),
        ('up{a="1",a=""}', "the label `a` appears twice"),
        ('up{"up"}', "two names"),
        ('up{__name__="down"}', "two names"),
        ('up{""="1"}', "empty name"),
        ("up{a}", "the label `a` has no value"),
        ("up{a=1}", "not in quotes"),
        ('up{1a="1"}', "cannot begin with `1`"),
        ('up{é="1"}', "cannot begin with `é`"),
        ('up{a:b="1"}', "`:` stands where"),
        ('up{,a="1"}', "cannot begin with `,`"),
        ('up{a="1",,b="2"}', "cannot begin with `,`"),
        ('up{a="1"b="2"}', "`b` stands where"),
        ('up{a="1"', "no end"),
        ("up{", "no end"),
        ("up{a", "no end"),
        ('up{a="1', "in quotes has no end"),
        ('up{a="1\\"}', "in quotes has no end"),
        (r'up{a="\t"}', r"`\t` is not an escape"),
        (r'up{a="\\\x41"}', r"`\x` is not an escape"),
        (r'up{"\d"="1"}', r"`\d` is not an escape"),
    ],
)
def test_what_is_wrong_with_a_series_is_told(text: str, why: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_series(text)
    assert why in caught.value.why
    assert caught.value.next_step


def test_blanks_after_the_name_are_for_one_format_only() -> None:
    assert read_series('up \t{a="1"}', spaced=True) == (lb.from_mapping({"__name__": "up", "a": "1"}), 11)
    assert read_series('up {a="1"}') == ((("__name__", "up"),), 2)
