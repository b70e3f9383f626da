"""Which process of xdist plays which test.

The tests of one module are played by one process, and so are those of one `xdist_group`: what they share is made once.
Left alone, xdist would give out tests without a group one by one, would make the fixtures of a module in both
processes, and would count through all that it has given out after each of thousands of tests.
"""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadGroupScheduling  # pyright: ignore[reportMissingTypeStubs]

_FIRST: Final = ("tests/e2e/", "tests/cli/")
"""They take longest: what is given out last should be short, so that both processes end at the same time."""


class ModulesAndGroups(LoadGroupScheduling):
    def _split_scope(self, nodeid: str) -> str:
        """What is played together with this test."""
        group: str = super()._split_scope(nodeid)
        return group.partition("::")[0] if group == nodeid else group


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModulesAndGroups | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # in the order of the tests, which has those first that take long
    return ModulesAndGroups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid, _FIRST))


def _place(nodeid: str, folders: Sequence[str]) -> int:
    return next((place for place, folder in enumerate(folders) if nodeid.startswith(folder)), len(folders))
