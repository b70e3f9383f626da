"""Which columns of a table are a sample, and what to say when the table has others."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple


class TimeUnit(StrEnum):
    """Of times that are plain numbers."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class ColumnOption(StrEnum):
    """The option of the command line that names a column of a kind."""

    METRIC = "--metric-column"
    TIMESTAMP = "--timestamp-column"
    VALUE = "--value-column"
    START = "--start-timestamp-column"
    LABEL = "--label-column"
    LABELS = "--labels-column"


UNIT_OPTION: Final = "--timestamp-unit"


class LabelColumn(NamedTuple):
    label: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Columns by name. The metric's name comes from one place: `metric`, `metric_name`, or a label `__name__`."""

    metric: str | None = "metric"
    """The column with the metric's name."""
    timestamp: str = "timestamp"
    value: str = "value"
    labels: tuple[str, ...] = ()
    """Columns that become labels of the same name; `name=column` gives the label another one. A null is no label."""
    labels_column: str | None = None
    """A column with all labels of a row: `map<string, string>`, or text with a JSON object of strings."""
    metric_name: str | None = None
    """The metric's name for all rows."""
    timestamp_unit: TimeUnit = TimeUnit.MILLISECONDS
    """Of whole numbers. Fractions must be seconds."""
    start: str | None = field(default=None, repr=False)
    """The column with start timestamps, in the same unit; a null is none. Without it samples have none."""

    def __post_init__(self) -> None:
        if self.metric is not None and self.metric_name is not None:
            raise ValueError("the metric's name comes from a column or is the same for all rows, not both")
        names = [pair.label for pair in self.label_columns]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(f"each label needs a name of its own, and these are given: {', '.join(names)}")

    @property
    def label_columns(self) -> tuple[LabelColumn, ...]:
        """The label before the first `=`, and the column after it.

        >>> ColumnMapping(labels=("host", "zone=az")).label_columns
        (LabelColumn(label='host', column='host'), LabelColumn(label='zone', column='az'))
        """
        pairs = (text.partition("=") for text in self.labels)
        return tuple(LabelColumn(label, column if mark else label) for label, mark, column in pairs)

    @property
    def text(self) -> str:
        """All of it: by this an import knows whether a file was imported the same way before. It may only change for
        mappings that nobody could write before."""
        return f"{self}" if self.start is None else f"{self} start={self.start!r}"

    def needed(self) -> list[tuple[str, ColumnOption]]:
        """The columns that must be there, each with the option that names it."""
        needed = [(self.timestamp, ColumnOption.TIMESTAMP), (self.value, ColumnOption.VALUE)]
        if self.start is not None:
            needed.append((self.start, ColumnOption.START))
        if self.metric is not None:
            needed.append((self.metric, ColumnOption.METRIC))
        if self.labels_column is not None:
            needed.append((self.labels_column, ColumnOption.LABELS))
        return needed + [(pair.column, ColumnOption.LABEL) for pair in self.label_columns]


OWN_FORM: Final = ColumnMapping(labels_column="labels")
"""As Quarterdeck writes segments: what was exported can be imported with no option."""
