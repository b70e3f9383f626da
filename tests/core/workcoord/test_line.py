"""A line: who is next, who leaves, and that nothing stays."""

from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.coordinator.lane import Lane
from quarterdeck.core.workcoord.coordinator.line import Line
from quarterdeck.core.workcoord.coordinator.records import Query, Work
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from tests.core.workcoord.harness import LEAF

LANE = Lane(("default", LEAF))


def works_of(name: str, number: int, *, light: bool = False, query: Query | None = None) -> list[Work]:
    query = query or Query(QueryId(name), None)
    keys = [WorkKey(query.query_id, LeafId("l"), WorkId(f"{name}{n}")) for n in range(number)]
    return [Work(WorkSpec(key, LEAF, is_light=light), query, LANE) for key in keys]


def served(line: Line) -> list[str]:
    order: list[str] = []
    while (work := line.head()) is not None:
        order.append(work.key.work_id)
        line.remove(work)
    return order


def test_queries_take_turns_and_each_keeps_its_order() -> None:
    line = Line()
    for work in [*works_of("a", 4), *works_of("b", 2), *works_of("c", 1)]:
        line.push(work)
    assert len(line) == 7
    assert served(line) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    assert len(line) == 0


def test_works_that_came_back_go_before_the_others_of_their_query_and_not_before_other_queries() -> None:
    line = Line()
    works = works_of("a", 4)
    works[2].number = works[3].number = 1
    for work in [*works, *works_of("b", 2)]:
        line.push(work)
    assert served(line) == ["a3", "b0", "a2", "b1", "a0", "a1"]


def test_a_query_that_comes_late_waits_one_turn_not_for_all_before_it() -> None:
    line = Line()
    big, small = works_of("big", 1000), works_of("small", 1)
    for work in [*big, *small]:
        line.push(work)
    assert served(line).index("small0") == 1


def test_a_work_may_leave_from_anywhere() -> None:
    line = Line()
    works = works_of("a", 3)
    for work in works:
        line.push(work)
    line.remove(works[1])
    assert served(line) == ["a0", "a2"]


def test_a_query_leaves_with_all_its_works_and_remembers_no_line() -> None:
    line = Line()
    gone, kept = works_of("gone", 3), works_of("kept", 1)
    for work in [*gone, *kept]:
        line.push(work)
    assert list(gone[0].query.lines) == [line]
    line.forget(gone[0].query)
    assert gone[0].query.lines == {}
    assert served(line) == ["kept0"]
    assert kept[0].query.lines == {}


def test_light_works_go_first_and_others_are_not_forgotten() -> None:
    line = Line()
    for work in [*works_of("a", 2), *works_of("b", 2), *works_of("light", 9, light=True)]:
        line.push(work)
    assert len(line) == 13
    assert [work.key.work_id for work in line.first(3)] == ["light0", "light1", "light2"]
    expected = [f"light{n}" for n in range(4)] + ["a0"] + [f"light{n}" for n in range(4, 8)] + ["b0"]
    assert served(line) == [*expected, "light8", "a1", "b1"]


def test_a_query_with_light_works_and_others_is_in_line_until_the_last_has_left() -> None:
    line = Line()
    query = Query(QueryId("q"), None)
    works = [*works_of("light", 1, light=True, query=query), *works_of("other", 1, query=query)]
    for work in works:
        line.push(work)
    line.remove(works[0])
    assert list(query.lines) == [line]
    line.remove(works[1])
    assert (query.lines, bool(line)) == ({}, False)
    for work in works:
        line.push(work)
    line.forget(query)
    assert (query.lines, len(line)) == ({}, 0)


def test_an_empty_line_has_no_head() -> None:
    assert Line().head() is None
