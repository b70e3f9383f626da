"""What the check finds in a layer below the capabilities, and what it leaves alone."""

from pathlib import Path
from textwrap import dedent

import pytest

from checks.capability_names import check_text, files_below, main

NAMES = ("metrics", "search")


def named(text: str, layer: str = "stores") -> list[str]:
    return [finding.text for finding in check_text(dedent(text), Path("x.py"), layer, NAMES)]


@pytest.mark.parametrize(
    "text, what",
    [
        ("class SearchFormat: pass", "SearchFormat"),
        ("def open_search(): pass", "open_search"),
        ("def f(searches_at_once: int): pass", "searches_at_once"),
        ("_SEARCH = 1", "_SEARCH"),
        ("def f(self):\n    self.search = 1", "search"),
        ("kind = 'search'", "search"),
        ("path = 'quarterdeck.search.engine:load'", "quarterdeck.search.engine:load"),
        ("raise ValueError('a search was not run')", "a search was not run"),
        ("why = f'the search {1} failed'", "the search "),
    ],
)
def test_a_name_of_a_capability_is_found(text: str, what: str) -> None:
    assert named(text) == [what]


@pytest.mark.parametrize(
    "text",
    [
        "import re\nfound = re.search('a', 'b')",
        '"""A search asks here."""',
        "def f():\n    '''For a search.'''",
        "slots = 1\n'''How many searches run.'''",
        "# for a search\nslots = 1",
        "researched = 'researcher'",
    ],
)
def test_what_is_used_or_explained_or_another_word_is_fine(text: str) -> None:
    assert named(text) == []


def test_a_word_with_another_meaning_in_a_layer_is_fine_there_but_not_alone_and_not_as_a_path() -> None:
    assert named("class StoreMetrics: pass", "telemetry") == []
    assert named("route = '/metrics'", "http") == []
    assert named("kind = 'metrics'", "telemetry") == ["metrics"]
    assert named("path = 'quarterdeck.metrics.api'", "telemetry") == ["quarterdeck.metrics.api"]
    assert named("class StoreMetrics: pass") == ["StoreMetrics"]


def test_every_layer_below_is_looked_at_and_the_capabilities_are_not(tmp_path: Path) -> None:
    for name in ("stores/a.py", "search/b.py", "newlayer/deep/c.py", "paths.py", "capabilities.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [str(path.relative_to(tmp_path)) for path in files_below(tmp_path, NAMES)] == [
        "newlayer/deep/c.py",
        "paths.py",
        "stores/a.py",
    ]


def test_our_layers_name_no_capability(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(Path(__file__).parents[2] / "src" / "quarterdeck")])
    assert code == 0, capsys.readouterr().out
