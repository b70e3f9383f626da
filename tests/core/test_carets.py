"""Places in a text: line, column and carets."""

import pytest

from quarterdeck.core.carets import line_and_column, show_place


@pytest.mark.parametrize(
    "text, position, place",
    [("", 0, (1, 1)), ("ab", 1, (1, 2)), ("ab\ncd", 3, (2, 1)), ("ab\ncd", 2, (1, 3)), ("a\n\n", 3, (3, 1))],
)
def test_lines_and_columns_are_counted_from_one(text: str, position: int, place: tuple[int, int]) -> None:
    assert line_and_column(text, position) == place


@pytest.mark.parametrize(
    "text, start, end, shown",
    [
        ("", 0, 0, ["", "^"]),
        ("abc", 1, 3, ["abc", " ^^"]),
        ("abc", 3, 3, ["abc", "   ^"]),
        ("ab\ncde\nf", 4, 5, ["cde", " ^"]),
        ("ab\ncde\nf", 4, 8, ["cde", " ^^"]),
        ("\ta\rb", 3, 4, [" a b", "   ^"]),
        ("x" * 100 + "!", 100, 101, ["x" * 59 + "!", " " * 59 + "^"]),
        ("x" * 59 + "!" + "y" * 200, 59, 60, ["x" * 59 + "!" + "y" * 60, " " * 59 + "^"]),
        ("y" * 300, 0, 300, ["y" * 120, "^" * 80]),
    ],
)
def test_carets_stand_below_the_stretch_and_long_lines_are_cut(
    text: str, start: int, end: int, shown: list[str]
) -> None:
    assert show_place(text, start, end).split("\n") == shown
