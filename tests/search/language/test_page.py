"""Every example on the page about searching is a search, and the mistake is told as the page says."""

import re
from pathlib import Path

import pytest

from quarterdeck.search.language.cursor import MAX_DEPTH
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.language.parser import MAX_LENGTH, parse_search
from quarterdeck.search.language.values import MAX_REGEXES

PAGE = (Path(__file__).parents[3] / "docs" / "search.md").read_text()
# A line that begins with a blank goes on with the search of the line before.
EXAMPLES = [
    example
    for block in re.findall(r"^```search\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for example in re.findall(r"^\S.*(?:\n[ \t]+.*)*", block, re.MULTILINE)
]


def first_cells(title: str) -> list[str]:
    """The code in the first column of the table whose first column has this title."""
    table = re.search(rf"^\| {title} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table is not None, f"no table of {title}s"
    return re.findall(r"^\| `([^|]*)` \|", table[1], re.MULTILINE)


TERMS = first_cells("term")
STAGES = first_cells("stage")


def test_the_page_has_examples() -> None:
    assert (len(EXAMPLES) > 30, len(TERMS) > 10, len(STAGES) > 10) == (True, True, True)


@pytest.mark.parametrize("text", [*EXAMPLES, *TERMS, *(f"| {stage}" for stage in STAGES)])
def test_an_example_on_the_page_is_a_search(text: str) -> None:
    parse_search(text)


def test_the_mistake_on_the_page_is_told_as_it_says() -> None:
    told = re.search(r"^```text\n(the search was not understood.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert told is not None
    with pytest.raises(SearchSyntaxError) as caught:
        parse_search(told[1].split("\n")[1].strip())
    assert str(caught.value) == told[1].rstrip("\n")


def test_the_page_names_the_limits() -> None:
    for limit in (f"at most {MAX_LENGTH:,} characters", f"{MAX_REGEXES} regular expressions"):
        assert limit in PAGE
    assert f"at most {MAX_DEPTH} deep" in PAGE
