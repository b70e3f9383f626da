"""RE2: what it takes, and what it says of the rest."""

import pytest

from quarterdeck.core.regexes import RefusedPattern, compile_re2


def test_the_dot_takes_newlines_only_where_that_is_wanted() -> None:
    assert compile_re2(b"a.b", dot_takes_newlines=True).search(b"a\nb") is not None
    assert compile_re2(b"a.b", dot_takes_newlines=False).search(b"a\nb") is None


@pytest.mark.parametrize(
    "pattern, complaint, about",
    [
        (b"x(a", "missing )", b"x(a"),
        (b"a{2000}", "invalid repetition size", b"{2000}"),
        (b"a\\", "trailing \\", b""),
        ("é[".encode(), "missing ]", b"["),
        (b"\xff", "invalid UTF-8", b""),
    ],
)
def test_a_refused_pattern_is_told_with_the_part_that_is_wrong(
    pattern: bytes, complaint: str, about: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RefusedPattern) as caught:
        compile_re2(pattern, dot_takes_newlines=False)
    assert (caught.value.complaint, caught.value.about) == (complaint, about)
    assert capfd.readouterr() == ("", ""), "RE2 must not write to the process's streams"


@pytest.mark.parametrize("unit", [rb"\pZ", rb"\PZ", rb"[\p{Zs}]"])
def test_a_pattern_of_very_many_classes_is_refused_before_they_are_written_out(unit: bytes) -> None:
    compile_re2(unit * 5, dot_takes_newlines=False)
    with pytest.raises(RefusedPattern, match="too many classes of Unicode"):
        compile_re2(unit * 501, dot_takes_newlines=False)


def test_a_pattern_may_be_held_to_less_memory() -> None:
    compile_re2(b".{1000}", dot_takes_newlines=False)
    with pytest.raises(RefusedPattern, match="pattern too large"):
        compile_re2(b".{1000}", dot_takes_newlines=False, memory_bytes=1 << 16)
