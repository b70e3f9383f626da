"""The list of known differences in docs/promql.md: `python -m tests.differential.page` writes it anew."""

import sys
from pathlib import Path

from tests.differential.known import KNOWN

PAGE = Path(__file__).parents[2] / "docs" / "promql.md"
BEGIN, END = "<!-- differences:begin -->", "<!-- differences:end -->"


def render() -> str:
    """One line of a list for each difference."""
    return "\n".join(f"- **{known.name[:1].upper()}{known.name[1:]}.** {known.reason}" for known in KNOWN)


def written(page: str) -> str:
    """The page with the list in its place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no place for the list: write {BEGIN} and {END} where it belongs")
    return f"{before}{BEGIN}\n{render()}\n{END}{after}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
