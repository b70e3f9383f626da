"""Runs a script against an engine, as upstream's runner does, and says of each eval how it went.

An instant eval is run several times: as it stands; with `@ T` on every selector, at other times (see `pinning`); and
each of these as a range query from a minute before to a minute after, whose middle step must be the same. One run that
goes wrong makes the eval fail. Time starts at 0; looking back 5 minutes and steps of 1 minute for subqueries without
one are the engine's defaults.
"""

import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Result, Scalar, Value, Vector
from quarterdeck.metrics.promql.source import Source
from tests.conformance import comparison
from tests.conformance.pinning import asks_for_the_query, other_times_ms, pinned
from tests.conformance.samples import Samples
from tests.conformance.script import (
    Clear,
    Eval,
    ExpectedFailure,
    ExpectedSeries,
    ExpectedString,
    Instant,
    Load,
    Script,
    ScriptError,
    Steps,
    Wording,
)

_MINUTE_MS: Final = 60_000
_SHOWN_FRAMES: Final = 6


class Refused(Exception):
    """The query cannot be answered; `reason` is in Prometheus' words."""

    def __init__(self, reason: str, is_parse_error: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_parse_error = is_parse_error


class Oracle(Protocol):
    """What answers queries over the samples of a stage. It raises `Refused`, and nothing else unless it is broken."""

    def instant(self, text: str, time_ms: int) -> Result:
        """The answer at one time."""
        ...

    def range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        """The answer at many times."""
        ...


class QueryEngine(Protocol):
    """An engine that gets its samples with each query."""

    def instant(self, sources: Sequence[Source], text: str, time_ms: int) -> Result:
        """The answer at one time."""
        ...

    def range(self, sources: Sequence[Source], text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        """The answer at many times."""
        ...


@dataclass(frozen=True, slots=True)
class EngineOracle:
    """An engine and its samples."""

    engine: QueryEngine
    sources: Sequence[Source]

    def instant(self, text: str, time_ms: int) -> Result:
        with _told():
            return self.engine.instant(self.sources, text, time_ms)

    def range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        with _told():
            return self.engine.range(self.sources, text, start_ms, end_ms, step_ms)


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except (ParseError, ExecutionError, LimitExceeded) as error:
        raise Refused(error.reason, isinstance(error, ParseError)) from error


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Samples, and the evals that are asked while they are there."""

    series: tuple[Series, ...]
    evals: tuple[Eval, ...]


class Ways(StrEnum):
    """In how many ways an instant eval is asked."""

    PLAIN = "plain"
    """As it stands."""
    SOME = "some"
    """As it stands, pinned to one other time, and each of these as a range query."""
    ALL = "all"
    """The same, pinned to all of upstream's times."""


class Verdict(StrEnum):
    """How an eval went."""

    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One eval and how it went."""

    file: str
    eval: Eval
    verdict: Verdict
    why: str = ""
    """The report of a failure."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One of the ways in which an eval is run."""

    query: str
    at: Instant | Steps
    middle_of: Instant | None = None
    """The time whose step alone counts, when a range query stands for an instant one."""

    def __str__(self) -> str:
        if isinstance(self.at, Instant):
            return f"{self.query}  at {_seconds(self.at.time_ms)}"
        steps = f"from {_seconds(self.at.start_ms)} to {_seconds(self.at.end_ms)} step {_seconds(self.at.step_ms)}"
        middle = "" if self.middle_of is None else f", the step at {_seconds(self.middle_of.time_ms)} alone"
        return f"{self.query}  {steps}{middle}"


def run(
    script: Script,
    engine: QueryEngine,
    shards: int = 1,
    wanted: Callable[[Eval], bool] = lambda _: True,
    thorough: bool = True,
) -> Iterator[Outcome]:
    """Run the wanted evals of a script, their samples spread over as many sources as there are shards.

    `thorough` runs pinned queries at all of upstream's times, and else at one of them, which takes a third of the time.
    """
    yield from run_divided(script, engine, {shards: Ways.ALL if thorough else Ways.SOME}, wanted)


def run_divided(
    script: Script, engine: QueryEngine, ways: Mapping[int, Ways], wanted: Callable[[Eval], bool] = lambda _: True
) -> Iterator[Outcome]:
    """Run the wanted evals over as many sources as there are shards, in the ways given for each number of shards.

    What a script loads is made into series once.
    """
    for stage in stages(script, wanted):
        whole = MemorySource.of(stage.series)
        for shards, asked in ways.items():
            oracle = EngineOracle(engine, whole.shards(shards))
            for command in stage.evals:
                outcome = judged(script.file, command, oracle, asked)
                if outcome.verdict is Verdict.FAILED and len(ways) > 1:
                    outcome = replace(outcome, why=f"over {shards} shards: {outcome.why}")
                yield outcome


def stages(script: Script, wanted: Callable[[Eval], bool] = lambda _: True) -> Iterator[Stage]:
    """What a script has loaded whenever it asks something, and what it asks then."""
    samples = Samples()
    evals: list[Eval] = []
    for command in script.commands:
        match command:
            case Eval():
                evals += [command] if wanted(command) else []
                continue
            case Clear() | Load():
                pass
        if evals:
            yield Stage(samples.series(), tuple(evals))
            evals = []
        if isinstance(command, Clear):
            samples = Samples()
            continue
        try:
            samples.load(command)
        except ValueError as error:
            raise ScriptError(script.file, command.line, str(error)) from error
    if evals:
        yield Stage(samples.series(), tuple(evals))


def judged(file: str, command: Eval, oracle: Oracle, ways: Ways) -> Outcome:
    """Ask in these ways, up to the first answer that is wrong."""
    value: Value | None = None
    for run_ in _runs(command, ways):
        try:
            result = _ask(run_, oracle)
            value = result.value
            complaint = _judge(command, run_, result)
        except Refused as error:
            value = None
            complaint = _judge_refusal(command, error.reason, error.is_parse_error)
        except Exception as error:  # noqa: BLE001 - a bug of the engine is the failure of one eval, not of all
            value = None
            complaint = f"the engine broke:\n{_story(error)}"
        if complaint is not None:
            return Outcome(file, command, Verdict.FAILED, _report(file, command, run_, complaint, value))
    return Outcome(file, command, Verdict.PASSED)


def _runs(command: Eval, ways: Ways) -> Iterator[_Run]:
    if isinstance(command.at, Steps) or ways is Ways.PLAIN:
        yield _Run(command.query, command.at)
        return
    yield from _with_range(command, command.query, command.at)
    try:
        query = pinned(command.query, command.at.time_ms)
    except ParseError:
        # The first run has reported this already, or has found it to be what is expected.
        return
    if query is not None:
        times_ms = other_times_ms(command.at.time_ms)
        for time_ms in times_ms if ways is Ways.ALL else times_ms[-1:]:
            yield from _with_range(command, query, Instant(time_ms))


def _with_range(command: Eval, query: str, at: Instant) -> Iterator[_Run]:
    yield _Run(query, at)
    is_vector = command.range_vector is None and not isinstance(command.expected, ExpectedString | ExpectedFailure)
    if is_vector and not asks_for_the_query(query):
        yield _Run(query, Steps(at.time_ms - _MINUTE_MS, at.time_ms + _MINUTE_MS, _MINUTE_MS), at)


def _ask(run_: _Run, oracle: Oracle) -> Result:
    if isinstance(run_.at, Instant):
        return oracle.instant(run_.query, run_.at.time_ms)
    return oracle.range(run_.query, run_.at.start_ms, run_.at.end_ms, run_.at.step_ms)


def _judge(command: Eval, run_: _Run, result: Result) -> str | None:
    if isinstance(command.expected, ExpectedFailure):
        return "there is a result, expected was an error"
    if run_.middle_of is not None:
        return _judge_middle(command, result, run_.middle_of.time_ms)
    steps = run_.at if isinstance(run_.at, Steps) else command.range_vector
    return (
        comparison.compare_notices("warning", command.warnings, result.warnings)
        or comparison.compare_notices("info", command.infos, result.infos)
        or comparison.compare(command.expected, result.value, steps)
    )


def _judge_middle(command: Eval, result: Result, time_ms: int) -> str | None:
    """The one step of a range query that must be as the instant query was. Its notices may be others: it has more
    steps, and sorting means nothing to it."""
    block = result.value
    if not isinstance(block, SeriesBlock):
        return "a range query must answer with a range vector"
    if complaint := comparison.compare_sorted(block):
        return complaint
    if isinstance(command.expected, ExpectedSeries) and command.expected.ordered:
        return None
    middle = block.filter(block.timestamps == time_ms)
    there = [row for row in range(len(middle.axis)) if middle.offsets[row] < middle.offsets[row + 1]]
    vector = Vector(time_ms, tuple(middle.axis.shown[row] for row in there), middle.values, middle.histograms)
    if isinstance(command.expected, ExpectedSeries):
        return comparison.compare(command.expected, vector, None)
    if vector.labels != ((),):
        return "a scalar must become one series without labels"
    return comparison.compare(command.expected, Scalar(time_ms, float(vector.values[0])), None)


def _judge_refusal(command: Eval, reason: str, is_parse_error: bool) -> str | None:
    if not isinstance(command.expected, ExpectedFailure):
        return f"there is an error: {reason}"
    wording = command.expected.wording
    if is_parse_error and wording == Wording():
        # Upstream refuses a script whose queries it cannot parse. Without this rule a feature that is not there would
        # pass every eval that expects it to fail.
        return f"this does not parse, which a bare `expect fail` does not mean; say it with msg: or regex:: {reason}"
    return None if wording.fits(reason) else f"the error is not what was expected: {reason}"


def _report(file: str, command: Eval, run_: _Run, complaint: str, value: Value | None) -> str:
    lines = [f"{file}:{command.line}: {_Run(command.query, command.at)}"]
    if run_ != _Run(command.query, command.at):
        lines.append(f"  run as: {run_}")
    lines.append(f"  {complaint}")
    lines += ["  expected:", *(f"    {line}" for line in comparison.describe_expected(command.expected))]
    if value is not None:
        lines += ["  came:", *(f"    {line}" for line in comparison.describe(value))]
    # Labels may hold bytes that are no text, as lone surrogates: neither a terminal nor pytest's workers take those.
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _story(error: Exception) -> str:
    """The last frames of a traceback and the error."""
    frames = traceback.extract_tb(error.__traceback__)[-_SHOWN_FRAMES:]
    lines = [f"    {Path(frame.filename).name}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames]
    return "\n".join([*lines, f"    {type(error).__name__}: {error}"])


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1000:g}s"
