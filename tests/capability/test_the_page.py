"""docs/capabilities.md shows code that is there."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from quarterdeck.capability import Capability

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "capabilities.md").read_text()
SHOWN = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("file, code", SHOWN)
def test_what_the_page_shows_is_in_the_file_that_it_names(file: str, code: str) -> None:
    assert code in (ROOT / file).read_text()


def test_all_code_on_the_page_names_its_file() -> None:
    assert len(SHOWN) == PAGE.count("```python") > 5


def test_every_field_of_a_capability_is_on_the_page() -> None:
    page = PAGE.replace("`", "")
    assert [field.name for field in fields(Capability) if not re.search(rf"\b{field.name}\b", page)] == []
