"""A worker takes the kinds it is told to, loads what they need and nothing else."""

import subprocess
import sys
from typing import Any

import pytest

from quarterdeck.config import WorkerSettings
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import WorkKind
from quarterdeck.worker.kinds import all_kinds

NOTHING: Any = None


class AnyStorage:
    """An executor keeps what it is given until there is work."""

    cache = spool = None


def kinds_of(*kinds: WorkKind) -> frozenset[WorkKind]:
    storage: Any = AnyStorage()
    found = all_kinds(WorkerSettings(kinds=kinds), storage, NOTHING)
    found.close()
    return frozenset(found.executors)


@pytest.mark.parametrize("kinds", [(WorkKind.LEAF,), (WorkKind.SEARCH,), (WorkKind.LEAF, WorkKind.SEARCH)])
def test_there_is_an_executor_for_each_kind_that_is_asked_for(kinds: tuple[WorkKind, ...]) -> None:
    assert kinds_of(*kinds) == frozenset(kinds)


def test_a_kind_that_nobody_executes_is_refused_with_those_that_are() -> None:
    with pytest.raises(QuarterdeckError, match="set kinds to some of leaf, search") as caught:
        kinds_of(WorkKind.LEAF, WorkKind.EPOCH)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "cannot take epoch work" in caught.value.message


@pytest.mark.parametrize(("kind", "unneeded"), [("search", "numba"), ("search", "duckdb"), ("leaf", "duckdb")])
def test_what_another_kind_needs_is_not_loaded(kind: str, unneeded: str) -> None:
    script = (
        "import sys\nfrom types import SimpleNamespace as N\n"
        "from quarterdeck.config import WorkerSettings\nfrom quarterdeck.worker.kinds import all_kinds\n"
        f"all_kinds(WorkerSettings(kinds={kind!r}), N(cache=None, spool=None), None).close()\n"
        f"sys.exit({unneeded!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
