"""One coordinator and four workers for all tests of a process that leave them as they were.

Tests share a coordinator without meeting: each may have workers of a tenant of its own. What a test breaks, `hands`
mends before the next one. All that stands for many tests ends with the last test of this folder: idle processes would
take a twentieth of the machine from the tests of other folders.
"""

import itertools
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.metrics.promql.memory import Series
from tests.differential import dataset
from tests.differential.peer import PrometheusClient, running_prometheus
from tests.e2e.crew import Coordinator, Crew, Member, Worker
from tests.e2e.fleet import Fleet
from tests.e2e.lake import Lake, fill
from tests.e2e.metrics_crew import MetricsCrew
from tests.e2e.samples import Samples, Store

FILES = 96
"""So many that each of six workers is the home of several, whatever the paths are: one in a million runs has fewer than
three for one of them."""
ROWS = 100
"""In each of them."""
FOUR = "four"
"""The tenant of the four workers."""
SAMPLES_SEED = 11
"""Of the samples that a crew and a Prometheus have both."""
SPARE_PLACES = 128
"""More than a query gives out at once: a work that was lost finds credit elsewhere at once."""
BOTH = "leaf,scan"
SHARDS = 16
WAVE = Samples("wave", series=2600, times=3000)
"""So many samples that a query of them has a work for each shard, and the homes of these are four on each of the four
workers."""


_standing: Final = ExitStack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    yield
    if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
        _standing.close()


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return fill(tmp_path_factory.mktemp("lake") / "files", FILES, ROWS)


@pytest.fixture(scope="session")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Coordinator:
    """A work stays with its home also on a machine that is busy: tests look at where works are."""
    crew = _standing.enter_context(Crew(tmp_path_factory.mktemp("shared")))
    return crew.coordinator(spill_after_s=30).wait_up()


@pytest.fixture(scope="session")
def four(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> list[Worker]:
    crew = _standing.enter_context(Crew(tmp_path_factory.mktemp("four")))
    return [
        crew.worker(f"w{number}", join=[coordinator.control], tenant=FOUR, queue_places=SPARE_PLACES, kinds=BOTH)
        for number in range(1, 5)
    ]


@pytest.fixture(scope="session")
def store(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The samples of the four workers' tenant."""
    store = Store.of(coordinator)
    store.put(WAVE, FOUR, SHARDS, tmp_path_factory.mktemp("wave"))
    return store


@pytest.fixture
def hands(coordinator: Coordinator, four: list[Worker]) -> list[Worker]:
    """The four workers, all of them in rotation."""
    return in_rotation(coordinator, four)


@pytest.fixture(scope="session")
def promql_crew(tmp_path_factory: pytest.TempPathFactory) -> MetricsCrew:
    """A crew that answers PromQL; tests share it, each with tenants of its own."""
    return _standing.enter_context(MetricsCrew(tmp_path_factory.mktemp("promql")))


@pytest.fixture(scope="session")
def promql_samples(promql_crew: MetricsCrew) -> tuple[Series, ...]:
    """What the default tenant of that crew has."""
    series = dataset.make(SAMPLES_SEED)
    promql_crew.load(DEFAULT_TENANT, series)
    return series


@pytest.fixture(scope="session")
def prometheus(promql_samples: tuple[Series, ...]) -> str:
    """The URL of a Prometheus that has the same samples."""
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        pytest.skip(str(error))
    port = _standing.enter_context(running_prometheus(program))
    with closing(PrometheusClient(port)) as client:
        client.write(promql_samples)
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Processes that end with the test."""
    with Crew(tmp_path) as crew:
        yield crew


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A name that only this test has."""
    name: str = request.node.name  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - pytest's
    return f"{name}-{next(_numbers)}"


_numbers = itertools.count()


def in_rotation(coordinator: Coordinator, workers: list[Worker]) -> list[Worker]:
    """Starts those again that a test has ended, and waits for all of them."""
    for worker in workers:
        if not worker.is_running:
            worker.start()
        worker.send(signal.SIGCONT)
    coordinator.wait_for(*workers)
    return workers


@pytest.fixture(scope="session")
def mooring(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet whose coordinators and workers are all started once."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = Fleet.start(_standing.enter_context(Crew(folder)))
    fleet.store.put(fleet.tide, "default", SHARDS, folder)
    return fleet


@pytest.fixture
def fleet(mooring: Fleet) -> Fleet:
    """All of them there: what a test has ended is started again."""
    return mooring.mended()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test tells what its processes wrote."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for member in _members(item.funcargs.values()):
            report.sections.append((f"log of {member.name}", member.log.tail()))
    return report


def _members(values: Iterable[Any]) -> Iterator[Member]:
    for value in values:
        if isinstance(value, Member):
            yield value
        elif isinstance(value, Crew):
            yield from value.members
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, Member))  # pyright: ignore[reportUnknownVariableType]
