"""A worker takes the kinds it is told to, loads what they need and nothing else."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability import Capability, Offers
from quarterdeck.capability.settings import configuration
from quarterdeck.capability.worker import WorkerHost
from quarterdeck.config import WorkerSettings
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.crew.clocks import MonotonicClock
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.metrics.model import LEAF
from quarterdeck.scan.model import SCAN
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics.families import Families
from quarterdeck.worker.kinds import kinds_taken


def any_host() -> WorkerHost:
    """Parts keep what they are given until there is work."""
    nothing: Any = None
    storage: Any = SimpleNamespace(cache=None, spool=None, objects=None)
    return WorkerHost(
        settings=configuration(CAPABILITIES).worker(),
        folder=nothing,
        guard=nothing,
        clock=MonotonicClock(),
        registry=nothing,
        families=Families(new_registry(), "quarterdeck_worker"),
        storage=storage,
        memory=MemoryBudget(),
        observe=nothing,
        url=nothing,
        set_accepting=nothing,
        leave=nothing,
        offers=Offers(),
    )


def test_a_kind_that_nobody_executes_is_refused_with_those_that_are() -> None:
    with pytest.raises(QuarterdeckError, match="set kinds to some of leaf, scan") as caught:
        kinds_taken(WorkerSettings(kinds=(LEAF, WorkKind("epoch"))), CAPABILITIES)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "cannot take epoch work" in caught.value.message


def test_a_kind_that_has_another_name_now_is_refused_with_that_name() -> None:
    with pytest.raises(QuarterdeckError, match="search is called scan now"):
        kinds_taken(WorkerSettings(kinds=(WorkKind("search"),)), CAPABILITIES)


def test_a_worker_takes_all_kinds_unless_it_is_told_otherwise() -> None:
    assert list(kinds_taken(WorkerSettings(), CAPABILITIES)) == [LEAF, SCAN]


@pytest.mark.parametrize("kinds", [(LEAF,), (SCAN,), (SCAN, LEAF)])
def test_a_worker_takes_the_kinds_that_it_was_told_to_and_no_other(kinds: tuple[WorkKind, ...]) -> None:
    assert tuple(kinds_taken(WorkerSettings(kinds=kinds), CAPABILITIES)) == kinds


@pytest.mark.parametrize("capability", CAPABILITIES, ids=[one.name for one in CAPABILITIES])
def test_a_capability_executes_the_kinds_that_it_names(capability: Capability) -> None:
    part = None if capability.on_worker is None else capability.on_worker.load()(any_host())
    assert frozenset(() if part is None else part.executors()) == frozenset(capability.kinds)
    if part is not None:
        part.close()


@pytest.mark.parametrize(("name", "unneeded"), [("scan", "numba"), ("scan", "duckdb"), ("metrics", "duckdb")])
def test_what_another_kind_needs_is_not_loaded(name: str, unneeded: str) -> None:
    script = (
        "import sys\nfrom quarterdeck.capabilities import CAPABILITIES\n"
        f"[one.on_worker.load() for one in CAPABILITIES if one.name == {name!r}]\n"
        f"sys.exit({unneeded!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
