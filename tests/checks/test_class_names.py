"""Two public classes of one layer with one name are found; everything else is left alone."""

from pathlib import Path

import pytest

from checks.class_names import main, shared_names

SOURCE = Path(__file__).parents[2] / "src" / "quarterdeck"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_name_that_stands_twice_in_one_layer_is_found_with_its_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, a__one="class Rows: ...\n", a__b__two="x = 1\n\n\nclass Rows: ...\n")
    (shared,) = shared_names(tmp_path)
    assert (shared.layer, shared.name) == ("a", "Rows")
    assert [(place.path.name, place.line) for place in shared.places] == [("two.py", 4), ("one.py", 1)]
    assert main([str(tmp_path)]) == 1
    assert "a has another class Rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "other",
    [
        {"b__two": "class Rows: ...\n"},
        {"a__two": "class _Rows: ...\n"},
        {"a__two": "class Lines:\n    class Rows: ...\n"},
        {"a__two": "from a.one import Rows\n"},
        {"a__proto__two": "class Rows: ...\n"},
        {"a__machine__events": "class Rows: ...\n"},
        {"a__pool_effects": "class Rows: ...\n"},
    ],
    ids=["another layer", "private", "within a class", "imported", "generated", "an event", "an effect"],
)
def test_what_cannot_be_taken_for_the_other_is_left_alone(tmp_path: Path, other: dict[str, str]) -> None:
    write(tmp_path, a__one="class Rows: ...\n", **other)
    assert main([str(tmp_path)]) == 0


def test_no_layer_of_ours_has_a_name_twice() -> None:
    assert list(map(str, shared_names(SOURCE))) == []
