"""A test script of Prometheus as data: what is loaded, what is asked, what is expected. Who parses it is `language`."""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.labels import Labels
from tests.conformance.notation import Point

_ADDED: Final = re.compile(r"(, from buckets \S+ to \S+, .+, over \d+ samples from \S+ to \S+)? \(\d+:\d+\)$")
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")


class ScriptError(Exception):
    """A script that cannot be read or run."""

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"{file}:{line}: {why}")
        self.file = file
        self.line = line
        self.why = why


@dataclass(frozen=True, slots=True)
class LoadedSeries:
    """One line of a `load`: the first value is at time 0, the others one interval apart."""

    line: int
    labels: Labels
    points: tuple[Point, ...]
    start_offsets_ms: tuple[int | None, ...] | None = None
    """For each value how far its start lies from its time, from an `@st` line."""


@dataclass(frozen=True, slots=True)
class Load:
    """Samples to add. With `with_custom_buckets`, classic histograms are added as native ones too."""

    line: int
    interval_ms: int
    series: tuple[LoadedSeries, ...]
    with_custom_buckets: bool = False


@dataclass(frozen=True, slots=True)
class Clear:
    """All samples go."""

    line: int


@dataclass(frozen=True, slots=True)
class Instant:
    """A query at one time."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class Steps:
    """A query at many times, or the times of a range vector's samples."""

    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(frozen=True, slots=True)
class Wording:
    """How an error, a warning or an info must read: the whole text, or a regular expression somewhere in it.

    A text may leave out what upstream adds to a warning or info when it knows the query: the place in it, `(1:5)`, and
    how far buckets had to be lifted. Older scripts do. To a pattern a byte that is no text is U+FFFD, as it is to Go's.
    """

    text: str | None = None
    pattern: str | None = None

    def fits(self, actual: str) -> bool:
        """Whether this is the text that was meant; without text and pattern, every text is."""
        if self.text is not None:
            return self.text in (actual, _ADDED.sub("", actual))
        return self.pattern is None or re.search(self.pattern, _NO_TEXT.sub("\ufffd", actual)) is not None

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        return "any text" if self.pattern is None else f"/{self.pattern}/"


@dataclass(frozen=True, slots=True)
class ExpectedSeries:
    """Series with a value for each step; an instant query has one step. No series: the result must be empty."""

    series: tuple[tuple[Labels, tuple[Point, ...]], ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedScalar:
    """One number."""

    value: float


@dataclass(frozen=True, slots=True)
class ExpectedString:
    """One string."""

    value: str


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """An error instead of a result."""

    wording: Wording


Expected: TypeAlias = ExpectedSeries | ExpectedScalar | ExpectedString | ExpectedFailure


@dataclass(frozen=True, slots=True)
class Notices:
    """What is expected of the warnings, or of the infos.

    With `wordings`, each must fit a notice and each notice one of them. With `none`, there must be no notice. With
    neither, which is what a script without an `expect` line says, notices do not matter.
    """

    wordings: tuple[Wording, ...] = ()
    none: bool = False


@dataclass(frozen=True, slots=True)
class Eval:
    """A query and what it must answer."""

    line: int
    query: str
    at: Instant | Steps
    expected: Expected
    warnings: Notices = Notices()
    infos: Notices = Notices()
    range_vector: Steps | None = None
    """The times at which the samples of a range vector are expected, when an instant query answers with one."""


Command: TypeAlias = Load | Clear | Eval


@dataclass(frozen=True, slots=True)
class Script:
    """The commands of a file, in order."""

    file: str
    commands: tuple[Command, ...]

    @property
    def evals(self) -> tuple[Eval, ...]:
        """The queries alone."""
        return tuple(command for command in self.commands if isinstance(command, Eval))
