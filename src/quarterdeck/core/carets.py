"""Places in a text that a person wrote, given in lines and columns and shown with carets."""

_SHOWN_BEFORE = 60
_SHOWN_AT_MOST = 120
_CARETS_AT_MOST = 80


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """The line and column of a character, both counted from 1.

    >>> line_and_column("a +\\n b", 5)
    (2, 2)
    """
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def show_place(text: str, start: int, end: int) -> str:
    """The line on which a stretch of the text begins, and carets below the stretch; of a long line a part.

    >>> print(show_place("level= | count()", 7, 8))
    level= | count()
           ^
    """
    line, column = line_and_column(text, start)
    shown = text.split("\n")[line - 1]
    left = max(0, column - _SHOWN_BEFORE)
    width = max(1, min(end - start, _CARETS_AT_MOST, len(shown) - column + 1))
    part = shown[left : left + _SHOWN_AT_MOST]
    # A tab or another character without a width of its own would move the carets away from what they point at.
    visible = "".join(char if char.isprintable() else " " for char in part)
    return f"{visible}\n{' ' * (column - 1 - left)}{'^' * width}"
