"""Notes and the report of a leaf's work, as one JSON value."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from quarterdeck.metrics.promql.notes import Lift, Note, Notes

Report: TypeAlias = Mapping[str, int | float | str]
"""What the work has to tell about itself, by name."""


def notes_as_json(notes: Notes, report: Report) -> dict[str, Any]:
    """All of it, in JSON's types."""
    return {
        "notes": [
            {
                "text": note.text,
                "position": note.position,
                "is_warning": note.is_warning,
                "lift": None if note.lift is None else _lift_as_json(note.lift),
            }
            for note in notes
        ],
        "report": {name: _number(value) if isinstance(value, float) else value for name, value in report.items()},
    }


def notes_from_json(found: dict[str, Any]) -> tuple[Notes, dict[str, int | float | str]]:
    """What `notes_as_json` was told."""
    notes = Notes()
    notes.add(
        Note(
            note["text"],
            note["position"],
            note["is_warning"],
            None if note["lift"] is None else _lift_from_json(note["lift"]),
        )
        for note in found["notes"]
    )
    told: dict[str, int | float | str | dict[str, str]] = found["report"]
    return notes, {name: _float(value) if isinstance(value, dict) else value for name, value in told.items()}


def _lift_as_json(lift: Lift) -> dict[str, Any]:
    return {
        "first_ms": int(lift.first_ms),
        "last_ms": int(lift.last_ms),
        "lowest": _number(lift.lowest),
        "highest": _number(lift.highest),
        "biggest": _number(lift.biggest),
        "times": int(lift.times),
    }


def _lift_from_json(lift: dict[str, Any]) -> Lift:
    return Lift(
        lift["first_ms"],
        lift["last_ms"],
        _float(lift["lowest"]),
        _float(lift["highest"]),
        _float(lift["biggest"]),
        lift["times"],
    )


def _number(value: float) -> object:
    """JSON has no infinity, and nothing that is not a number."""
    return float(value) if math.isfinite(value) else {"float": str(float(value))}


def _float(found: float | dict[str, str]) -> float:
    return float(found["float"] if isinstance(found, dict) else found)
