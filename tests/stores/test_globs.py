"""Globs: what they find, and that no pattern takes for ever."""

import time

import pytest

from quarterdeck.stores.globs import Glob, has_wildcard


@pytest.mark.parametrize(
    ("pattern", "found", "passed_over"),
    [
        ("*", ["a", "a.b"], [".a", "a/b"]),
        ("?", ["a", "é"], ["", "ab", "."]),
        ("*.parquet", ["a.parquet", "a.b.parquet"], [".parquet", "a.parquet.tmp", "aparquet"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc", "abcabc"], ["acb", "abcd", "Xabc"]),
        ("a?c*", ["abc", "abcd"], ["ac", "xabc"]),
        ("a[b].c", ["a[b].c"], ["ab.c", "a[b]xc"]),
        ("**", ["a", "a/b", "a/b/c"], [".a", "a/.b", "a/.b/c"]),
        ("**/c", ["c", "a/c", "a/b/c"], ["cc", "a/cc", "c/a", ".a/c"]),
        ("a/**/c", ["a/c", "a/b/c", "a/b/b/c"], ["c", "ac", "a/b", "b/a/c"]),
        ("a/**", ["a/b", "a/b/c"], ["b", "ab/c"]),
        ("**/b/**/d", ["b/d", "a/b/d", "b/c/d", "a/b/c/b/d"], ["b", "a/d", "d/b"]),
        ("a**b", ["ab", "aXb"], ["a/b"]),
        (".*", [".a"], ["a"]),
        ("a\n*", ["a\nb"], ["ab"]),
    ],
)
def test_a_glob_finds_what_it_means(pattern: str, found: list[str], passed_over: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in found if not glob.matches(path)] == []
    assert [path for path in passed_over if glob.matches(path)] == []


def test_no_pattern_takes_for_ever() -> None:
    began_s = time.process_time()
    assert not Glob("*a" * 30 + "b").matches("a" * 200)
    assert not Glob("**/a/" * 15 + "b").matches("a/" * 60 + "c")
    assert time.process_time() - began_s < 2.0


def test_wildcards_are_told_from_plain_names() -> None:
    assert has_wildcard("a/*")
    assert has_wildcard("a?")
    assert not has_wildcard("a[b]{c}/d")
