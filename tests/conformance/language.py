"""The language of Prometheus' test scripts (promql/promqltest of 3.14): text in, a `Script` out.

A block is a command and the lines below it, up to a blank line or a comment. Blanks around a line mean nothing. What is
not understood is an error with file and line, so that no expectation is passed over silently.

The time of an eval with `expect range vector` is the end of that, as upstream has it, whatever the eval says.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tests.conformance import notation
from tests.conformance.script import (
    Clear,
    Command,
    Eval,
    Expected,
    ExpectedFailure,
    ExpectedScalar,
    ExpectedSeries,
    ExpectedString,
    Instant,
    Load,
    LoadedSeries,
    Notices,
    Script,
    ScriptError,
    Steps,
    Wording,
)

_LOAD: Final = re.compile(r"load(?P<custom>_with_nhcb)?\s+(?P<interval>\S+)", re.IGNORECASE)
_INSTANT: Final = re.compile(r"eval(?:_(?P<mode>fail|warn|ordered|info))?\s+instant\s+at\s+(?P<at>\S+)\s+(?P<query>.+)")
_RANGE: Final = re.compile(
    r"eval(?:_(?P<mode>fail|warn|info))?\s+range\s+"
    r"from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+)\s+(?P<query>.+)"
)
_EXPECT: Final = re.compile(
    r"expect\s+(?P<what>ordered|fail|warn|no_warn|info|no_info)(?:\s+(?P<how>msg|regex):(?P<text>.+))?"
)
_EXPECT_RANGE: Final = re.compile(
    r"expect\s+range\s+vector\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+)"
)
_EXPECT_STRING: Final = re.compile(r"expect\s+string\s+(?P<string>.+)")
_OLD_FAILURE: Final = re.compile(r"expected_fail_(?P<how>message|regexp)\s+(?P<text>.+)")
_START: Final = re.compile(r"(?P<metric>\S*)@st\s+(?P<offsets>.+)")


def parse(text: str, file: str = "script") -> Script:
    """The script of a text; `file` is how errors and reports call it."""
    commands: list[Command] = []
    for block in _blocks(text):
        try:
            commands += block.commands()
        except ValueError as error:
            raise ScriptError(file, block.line, str(error)) from error
    return Script(file, tuple(commands))


@dataclass(slots=True)
class _Block:
    """The lines of a block, read one after the other. `line` is that of the last one read, for errors."""

    lines: list[tuple[int, str]]
    line: int = 0
    place: int = 0

    def commands(self) -> Iterator[Command]:
        """The commands of the block: one, unless a bare number ends an eval and another command follows."""
        while self.place < len(self.lines):
            first = self.next()
            word = first.split(maxsplit=1)[0].lower()
            if word == "clear":
                yield Clear(self.line)
            elif word in ("load", "load_with_nhcb"):
                yield self.load(first)
            elif word.startswith("eval"):
                yield self.eval(first)
            else:
                raise ValueError(f"{word!r} is no command: write load, load_with_nhcb, clear or eval")

    def next(self) -> str:
        """The next line."""
        self.line, text = self.lines[self.place]
        self.place += 1
        return text

    def rest(self) -> Iterator[str]:
        """All lines that were not read yet."""
        while self.place < len(self.lines):
            yield self.next()

    def load(self, first: str) -> Load:
        """A `load` and the series below it."""
        found = _LOAD.fullmatch(first)
        if found is None:
            raise ValueError("this is no load: write load <interval> or load_with_nhcb <interval>")
        line, series = self.line, list[LoadedSeries]()
        default: tuple[int | None, ...] | None = None
        pending: LoadedSeries | None = None
        for text in self.rest():
            if start := _START.fullmatch(text):
                offsets = notation.start_offsets_ms(start["offsets"])
                if pending is not None:
                    raise ValueError("the @st line before this one has no series below it")
                if start["metric"]:
                    pending = LoadedSeries(self.line, notation.metric(start["metric"]), (), offsets)
                else:
                    default = offsets
                continue
            loaded = LoadedSeries(self.line, *notation.series(text))
            series.append(_with_starts(loaded, pending, default))
            pending = None
        if pending is not None:
            raise ValueError("the @st line has no series below it")
        return Load(line, notation.duration_ms(found["interval"]), tuple(series), found["custom"] is not None)

    def eval(self, first: str) -> Eval:
        """An `eval` and the expectations below it."""
        found = _INSTANT.fullmatch(first) or _RANGE.fullmatch(first)
        if found is None:
            raise ValueError(
                "this is no eval: write eval instant at <time> <query>, or eval range from <time> to <time> step "
                "<duration> <query>"
            )
        line = self.line
        at = Instant(notation.duration_ms(found["at"])) if found.re is _INSTANT else _steps(found)
        expectations = _Expectations()
        if found["mode"] == "fail":
            expectations.eval_fails = True
        elif found["mode"]:
            expectations.add_mode(found["mode"], Wording())
        for text in self.rest():
            if expectations.add(text, isinstance(at, Instant)):
                break
        return expectations.eval(line, found["query"], at)


@dataclass(slots=True)
class _Expectations:
    """What was read below an eval so far."""

    ordered: bool = False
    eval_fails: bool = False
    """Whether the eval itself says that it fails: `eval_fail`. How it fails may stand below."""
    failure: Wording | None = None
    notices: dict[str, Notices] = field(default_factory=lambda: {"warn": Notices(), "info": Notices()})
    range_vector: Steps | None = None
    result: ExpectedScalar | ExpectedString | None = None
    series: list[tuple[notation.Labels, tuple[notation.Point, ...]]] = field(
        default_factory=list[tuple[notation.Labels, tuple[notation.Point, ...]]]
    )

    def add(self, text: str, is_instant: bool) -> bool:
        """One line more; answers whether it was the last one of its eval."""
        if found := _OLD_FAILURE.fullmatch(text):
            if not self.eval_fails:
                raise ValueError("expected_fail_message and expected_fail_regexp belong below eval_fail")
            wording = found["text"].strip()
            self.failure = Wording(text=wording) if found["how"] == "message" else _pattern(wording)
            return True
        if text.split(maxsplit=1)[0] == "expect":
            self.add_expect(text)
            return False
        if (number := _number(text)) is not None:
            self.result = ExpectedScalar(number)
            return True
        labels, points = notation.series(text)
        if is_instant and len(points) > 1 and self.range_vector is None:
            raise ValueError("an instant query has one value a series: say expect range vector above to have more")
        # Of two lines for one series the last one counts, as within a load, and as upstream has it.
        self.series = [(other, expected) for other, expected in self.series if other != labels]
        self.series.append((labels, points))
        return False

    def add_expect(self, text: str) -> None:
        """A line that starts with `expect`."""
        if found := _EXPECT_RANGE.fullmatch(text):
            self.range_vector = _steps(found, may_stand=True)  # a step of 0: all values at the start
        elif found := _EXPECT_STRING.fullmatch(text):
            self.result = ExpectedString(notation.unquoted(found["string"]))
        elif found := _EXPECT.fullmatch(text):
            wording = Wording()
            if found["how"] == "msg":
                wording = Wording(text=found["text"].strip())
            elif found["how"] == "regex":
                wording = _pattern(found["text"].strip())
            self.add_mode(found["what"], wording)
        else:
            raise ValueError(
                "this expect is unknown: write ordered, fail, warn, no_warn, info or no_info, then msg: or regex: if "
                "the words matter; or string; or range vector from .. to .. step .."
            )

    def add_mode(self, mode: str, wording: Wording) -> None:
        """What `expect <mode>` or `eval_<mode>` says."""
        if mode == "ordered":
            self.ordered = True
        elif mode == "fail":
            if self.failure is not None:
                raise ValueError("a failure is expected twice")
            self.failure = wording
        else:
            kind = mode.removeprefix("no_")
            before = self.notices[kind]
            after = (
                replace(before, none=True) if mode != kind else replace(before, wordings=(*before.wordings, wording))
            )
            if after.none and after.wordings:
                raise ValueError(f"{kind} and no_{kind} cannot both be expected")
            self.notices[kind] = after

    def eval(self, line: int, query: str, at: Instant | Steps) -> Eval:
        """The whole, when all lines are read."""
        if self.ordered and isinstance(at, Steps):
            raise ValueError("a range query's result is always sorted by labels: ordered says nothing there")
        if self.range_vector is not None:
            if isinstance(at, Steps):
                raise ValueError("a range query's values are at its own steps: expect range vector is for instant ones")
            at = Instant(self.range_vector.end_ms)
        failure = Wording() if self.failure is None and self.eval_fails else self.failure
        if (self.result is not None) + bool(self.series) + (failure is not None) > 1:
            raise ValueError("expect one of these: series, a number, a string or a failure")
        expected: Expected
        if failure is not None:
            expected = ExpectedFailure(failure)
        elif self.result is not None:
            expected = self.result
        else:
            expected = ExpectedSeries(tuple(self.series), self.ordered)
        return Eval(line, query, at, expected, self.notices["warn"], self.notices["info"], self.range_vector)


def _blocks(text: str) -> Iterator[_Block]:
    lines: list[tuple[int, str]] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if line and not line.startswith("#"):
            lines.append((number, line))
        elif lines:
            yield _Block(lines)
            lines = []
    if lines:
        yield _Block(lines)


def _with_starts(
    series: LoadedSeries, pending: LoadedSeries | None, default: tuple[int | None, ...] | None
) -> LoadedSeries:
    count = len(series.points)
    if pending is not None:
        offsets = pending.start_offsets_ms or ()
        if pending.labels != series.labels:
            raise ValueError("the @st line above is that of another series")
        if len(offsets) != count:
            raise ValueError(f"the @st line above has {len(offsets)} values, and this one {count}")
        return replace(series, start_offsets_ms=offsets)
    if default is not None:
        return replace(series, start_offsets_ms=tuple(default[place % len(default)] for place in range(count)))
    return series


def _steps(found: re.Match[str], *, may_stand: bool = False) -> Steps:
    steps = Steps(*(notation.duration_ms(found[name]) for name in ("start", "end", "step")))
    if steps.end_ms < steps.start_ms:
        raise ValueError(f"the end ({found['end']}) is before the start ({found['start']})")
    if steps.step_ms <= 0 and not (may_stand and steps.step_ms == 0):
        raise ValueError("the step must be longer than nothing")
    return steps


def _pattern(text: str) -> Wording:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return Wording(pattern=text)


def _number(text: str) -> float | None:
    """The number that a line consists of, if it does. `nan` and `inf` are numbers; no series is called so."""
    try:
        return float(int(text, 0))
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
