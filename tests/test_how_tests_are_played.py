"""Seeds in a loop, and what one process of xdist plays together."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.each_seed import each_seed
from tests.scheduling import ModulesAndGroups, pytest_collection_modifyitems


def test_every_seed_is_played_and_a_failure_names_its_seed() -> None:
    played: list[int] = []

    @each_seed(range(4))
    def test_it(seed: int) -> None:
        played.append(seed)
        assert seed != 2

    with pytest.raises(AssertionError) as caught:
        test_it()
    assert played == [0, 1, 2]
    assert caught.value.__notes__ == ["seed 2; a call with this one alone: test_it.of_seed(2)"]


@pytest.mark.parametrize(
    "nodeid, together",
    [
        ("tests/a/test_b.py::test_c", "tests/a/test_b.py"),
        ("tests/a/test_b.py::test_c[x::y]", "tests/a/test_b.py"),
        ("tests/a/test_b.py::test_c[x]@group", "group"),
        ("tests/a/test_b.py::test_c[a@b]", "tests/a/test_b.py"),
    ],
)
def test_a_module_is_played_together_and_so_is_a_group(nodeid: str, together: str) -> None:
    scheduler: Any = ModulesAndGroups.__new__(ModulesAndGroups)
    assert scheduler._split_scope(nodeid) == together


def test_what_takes_longest_is_played_first_and_the_order_stays_otherwise() -> None:
    names = [
        "tests/core/test_z.py::test_a",
        "tests/cli/test_b.py::test_a",
        "tests/e2e/test_c.py::test_a",
        "tests/a.py::b",
    ]
    items: Any = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(items)
    assert [names.index(item.nodeid) for item in items] == [2, 1, 0, 3]
