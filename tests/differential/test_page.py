"""docs/promql.md lists every known difference."""

import pytest

from tests.differential.page import PAGE, written


def test_the_page_has_the_list_of_known_differences() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run `make reference`"


def test_a_page_without_a_place_for_the_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the list"):
        written("# PromQL\n")
