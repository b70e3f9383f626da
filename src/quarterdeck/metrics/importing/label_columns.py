"""Columns that say which series a row belongs to.

Each column gives every row a number, such that rows with the same number have the same labels of it; what the labels
are is asked only for a few rows, one for each series.
"""

import json
from typing import Any, Final, Protocol

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.promql.blocks import I64, totals_before
from quarterdeck.metrics.promql.labels import METRIC_NAME

_arrow: Final[Any] = pyarrow
_types: Final[Any] = pyarrow.types

Pairs = list[tuple[str, str]]

_NEXT_JSON: Final = 'write the labels of each row as {"name": "value"}, all values as strings'


def is_text(kind: Any) -> bool:
    if _types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def is_label(kind: Any) -> bool:
    """Whether a value of this type can be the value of a label: text, whole numbers, true and false, nothing."""
    return is_text(kind) or bool(_types.is_integer(kind) or _types.is_boolean(kind) or _types.is_null(kind))


def is_map(kind: Any) -> bool:
    return bool(_types.is_map(kind)) and is_text(kind.key_type) and is_text(kind.item_type)


class CodedColumn(Protocol):
    """A column of one batch."""

    codes: I64
    """For each row a number from 0 to before `size`."""
    size: int

    def pairs_at(self, rows: I64) -> list[Pairs | Malformed]:
        """The labels of some rows, or what is wrong with them."""
        ...


def numbered(column: Any) -> tuple[I64, Any]:
    """For each row 0 where it is null, else one more than the place of its value; and the values by place."""
    if _types.is_null(column.type):
        column = column.cast(_arrow.string())
    encoded = column if _types.is_dictionary(column.type) else column.dictionary_encode()
    places = encoded.indices.cast(_arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return places + 1, encoded.dictionary


def _texts_at(codes: I64, values: Any) -> list[str | None]:
    places = _arrow.array(codes - 1, mask=codes == 0)
    return values.take(places).cast(_arrow.string()).to_pylist()


class LabelValues:
    """A column with the values of one label; a null is no label."""

    def __init__(self, column: Any, label: str) -> None:
        self.codes, self._values = numbered(column)
        self.size: int = len(self._values) + 1
        self._label: Final = label

    def pairs_at(self, rows: I64) -> list[Pairs | Malformed]:
        texts = _texts_at(self.codes[rows], self._values)
        return [[] if text is None else [(self._label, text)] for text in texts]


class MetricNames(LabelValues):
    """A column with the names of metrics, which may not be null."""

    def __init__(self, column: Any, name: str) -> None:
        super().__init__(column, METRIC_NAME)
        self._name: Final = name

    def pairs_at(self, rows: I64) -> list[Pairs | Malformed]:
        nameless = Malformed(f"column {self._name!r} has no metric's name", "fill it, or leave the row out")
        return [pairs or nameless for pairs in super().pairs_at(rows)]


class JsonLabels:
    """A column of text with all labels as a JSON object; a null is no labels."""

    def __init__(self, column: Any, name: str) -> None:
        self.codes, self._values = numbered(column)
        self.size: int = len(self._values) + 1
        self._name: Final = name

    def pairs_at(self, rows: I64) -> list[Pairs | Malformed]:
        texts = _texts_at(self.codes[rows], self._values)
        return [[] if text is None else _from_json(text, self._name) for text in texts]


class _JsonObject(list[tuple[str, Any]]):
    """Pairs and not a dictionary: a name that appears twice has to be noticed."""


def _from_json(text: str, name: str) -> Pairs | Malformed:
    try:
        pairs: object = json.loads(text, object_pairs_hook=_JsonObject)
        if isinstance(pairs, _JsonObject) and all(isinstance(value, str) for _, value in pairs):
            if "\\u" in text:
                "".join(part for pair in pairs for part in pair).encode()  # half a surrogate pair is no text
            return pairs
    except (ValueError, RecursionError):
        pass
    return Malformed(f"column {name!r} has `{text[:60]}`, which is no JSON object of strings", _NEXT_JSON)


class MapLabels:
    """A column of type map<string, string>; a null is no label."""

    def __init__(self, column: Any) -> None:
        offsets: I64 = column.offsets.cast(_arrow.int64()).to_numpy()
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        self._starts: Final = offsets[:-1]
        self._lengths: Final[I64] = np.where(nulls, 0, np.diff(offsets))
        self._names, self._name_texts = numbered(column.keys)
        self._items, self._item_texts = numbered(column.items)
        self.codes, self.size = self._number()

    def _number(self) -> tuple[I64, int]:
        """Rows get numbers label by label: two have the same if they had so before and the next label is the same."""
        pairs, pair_count = densified(self._names * (len(self._item_texts) + 1) + self._items)
        codes = np.zeros(self._lengths.size, np.int64)
        size = 1
        for at in range(int(self._lengths.max(initial=0))):
            rows = np.flatnonzero(self._lengths > at)
            dense, count = densified(codes[rows] * pair_count + pairs[self._starts[rows] + at])
            codes[rows] = dense + size
            size += count
        return codes, size

    def pairs_at(self, rows: I64) -> list[Pairs | Malformed]:
        lengths = self._lengths[rows]
        bounds = totals_before(lengths)
        labels: I64 = np.repeat(self._starts[rows] - bounds[:-1], lengths) + np.arange(int(bounds[-1]), dtype=np.int64)
        names = _texts_at(self._names[labels], self._name_texts)
        values = _texts_at(self._items[labels], self._item_texts)
        pairs = [None if value is None else (name or "", value) for name, value in zip(names, values, strict=True)]
        cuts = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        return [[pair for pair in pairs[low:high] if pair is not None] for low, high in cuts]


def densified(codes: I64) -> tuple[I64, int]:
    """The same distinctions with the smallest numbers, in the order in which they come; and how many there are."""
    encoded = _arrow.array(codes).dictionary_encode()
    return encoded.indices.cast(_arrow.int64()).to_numpy(zero_copy_only=False), len(encoded.dictionary)
