"""What can be wrong with a query, one class a phase.

`reason` is in Prometheus' words, so that clients and people who know those recognise it; the whole message says what
to do next as well.
"""

from quarterdeck.core.carets import line_and_column, show_place
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.promql.spans import Span


class ParseError(QuarterdeckError):
    """The text is no query, or one whose types do not fit."""

    def __init__(self, reason: str, text: str, span: Span) -> None:
        line, column = line_and_column(text, span.start)
        place = f"{line}:{column}" if text else "unknown position"
        picture = show_place(text, span.start, span.end).replace("\n", "\n  ")
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the query was not understood",
            f"{place}: parse error: {reason}",
            f"correct it here:\n  {picture}",
        )
        self.args = (reason, text, span)
        self.reason = f"{place}: parse error: {reason}"
        self.span = span


class WrongTypeError(ParseError):
    """The text is a query, of a type that cannot be asked for in this way. Prometheus names no place then."""

    def __init__(self, reason: str, text: str, span: Span) -> None:
        super().__init__(reason, text, span)
        self.reason = reason


class ExecutionError(QuarterdeckError):
    """The query is well formed and cannot be answered over these samples."""

    def __init__(self, reason: str, next_step: str = "change the query") -> None:
        super().__init__(ErrorCode.WORK_FAILED, "the query was not answered", reason, next_step)
        self.args = (reason, next_step)
        self.reason = reason


class LimitExceeded(QuarterdeckError):
    """The query would take more than it may."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(ErrorCode.RESOURCE_EXHAUSTED, "the query was stopped", reason, next_step, retryable=False)
        self.args = (reason, next_step)
        self.reason = reason


class DefectError(QuarterdeckError):
    """A mistake of ours, met while a query was evaluated: it would be met again."""

    def __init__(self, doing: str, reason: str) -> None:
        super().__init__(
            ErrorCode.INTERNAL,
            "the query was not answered",
            f"{doing} failed with {reason}, which is a defect of Quarterdeck",
            "report it with the query; the log of the process that met it has the traceback",
        )
        self.args = (doing, reason)
        self.doing = doing
