"""Notes and reports as JSON."""

import json
import math

import numpy as np
import pytest

from quarterdeck.metrics.promql.notes import MOST, Lift, Notes
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.transfer.json_texts import as_texts, from_texts
from quarterdeck.metrics.transfer.notes_text import Report, notes_as_json, notes_from_json


def carried(notes: Notes, report: Report) -> tuple[Notes, Report]:
    (found,) = from_texts(as_texts([notes_as_json(notes, report)]))
    return notes_from_json(found)


def test_notes_come_back_in_order_with_all_they_say() -> None:
    notes = Notes()
    notes.warn('a "quoted" \udcff text', Span(7, 9))
    notes.inform("lifted", Span(0, 1), Lift(-5, 10, -math.inf, math.inf, 0.1, 3))
    notes.inform("lifted", Span(0, 1), Lift(20, 30, 0.5, 1.0, 1e-300))
    notes.warn("lifted", Span(0, 1))
    came, _ = carried(notes, {})
    assert [(note, note.lift) for note in came] == [(note, note.lift) for note in notes]
    assert next(note.lift for note in came if note.lift) == Lift(-5, 30, -math.inf, math.inf, 0.1, 4)


def test_as_many_notes_as_there_can_be_come_back() -> None:
    notes = Notes()
    for number in range(MOST + 5):
        notes.warn(f"note {number}", Span(number, number + 1))
    came, _ = carried(notes, {})
    assert list(came) == list(notes)
    assert len(list(came)) == MOST + 1


def test_numbers_of_numpy_are_numbers() -> None:
    notes = Notes()
    lift = Lift(np.int64(1), np.int64(2), np.float64(0.5), np.float64(np.inf), np.float64(1))  # pyright: ignore[reportArgumentType]
    notes.inform("lifted", Span(0, 1), lift)
    came, _ = carried(notes, {})
    assert [note.lift for note in came] == [lift]


@pytest.mark.parametrize("value", [1, 2**70, 1.0, 0.1, 1e22, -0.0, math.inf, -math.inf, "text", "nan", ""])
def test_a_report_keeps_values_and_their_kinds(value: float | str) -> None:
    _, report = carried(Notes(), {"name": value})
    assert report == {"name": value}
    assert repr(report["name"]) == repr(value)


def test_what_is_not_a_number_is_no_broken_json() -> None:
    text = as_texts([notes_as_json(Notes(), {"a": math.nan})])[0].as_py()
    assert json.loads(text, parse_constant=pytest.fail)["report"] == {"a": {"float": "nan"}}
    _, report = carried(Notes(), {"a": math.nan})
    assert math.isnan(float(report["a"]))
