"""What could not be searched, over all chunks."""

from quarterdeck.search.model import FileProblem
from quarterdeck.search.root.problems import Problems


def test_a_file_that_was_searched_in_parts_is_told_once_with_all_its_lines() -> None:
    problems = Problems()
    problems.add([FileProblem("/a", "no records", 2)])
    problems.add([FileProblem("/a", "no records", 3), FileProblem("/b", "no records", 1)])
    assert problems.told() == (FileProblem("/a", "no records", 5), FileProblem("/b", "no records", 1))
    assert problems.bad_lines == 6


def test_of_very_many_the_first_are_told_and_the_rest_counted() -> None:
    problems = Problems()
    for number in range(2500):
        problems.add([FileProblem(f"/{number}", "damaged")])
    told = problems.told()
    assert len(told) == 1001
    assert told[-1].why == "1,500 more problems are not told one by one"
    assert problems.spared_nothing(2500)
    assert not problems.spared_nothing(2501)


def test_two_problems_of_one_file_do_not_count_for_another() -> None:
    problems = Problems()
    problems.add([FileProblem("/a", "damaged"), FileProblem("/a", "shorter than listed")])
    assert not problems.spared_nothing(2)


def test_where_nothing_is_wrong_nothing_is_told() -> None:
    assert not Problems()
    assert not Problems().spared_nothing(0)
