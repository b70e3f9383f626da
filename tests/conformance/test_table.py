"""The table of what passes: honest counts, in their place on the page."""

import pytest

from tests.conformance.language import parse
from tests.conformance.runner import Outcome, Verdict
from tests.conformance.table import BEGIN, END, Row, render, row, written

(EVAL,) = parse("eval instant at 0 up").evals


def outcomes(*verdicts: Verdict) -> list[Outcome]:
    return [Outcome("a.test", EVAL, verdict) for verdict in verdicts]


def test_a_row_counts_what_passed_and_says_why_the_rest_did_not() -> None:
    counted = row("limit.test", outcomes(Verdict.PASSED, Verdict.PASSED, Verdict.FAILED))
    assert counted == Row("limit.test", 2, 3, "1 fail: limitk and limit_ratio are experimental")
    assert row("functions.test", outcomes(Verdict.FAILED)).why == "1 fail"


def test_the_table_ends_with_sums() -> None:
    assert render([Row("a.test", 1, 3, "why"), Row("b.test", 4, 4, "")]).split("\n")[2:] == [
        "| a.test | 1 | 3 | why |",
        "| b.test | 4 | 4 |  |",
        "| **all** | 5 | 7 | |",
    ]


def test_the_table_replaces_what_stands_between_the_markers() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert written(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert written(written(page, "new"), "newer") == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"


@pytest.mark.parametrize("page", ["", BEGIN, f"{END} {BEGIN}"])
def test_a_page_without_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        written(page, "new")
