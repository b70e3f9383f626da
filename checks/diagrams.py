"""Keeps the diagrams in ARCHITECTURE.md equal to the transition tables they show.

`python -m checks.diagrams` says whether they are; with `--write` it puts the current ones in.
"""

import argparse
import re
import sys
from pathlib import Path

from quarterdeck.core.leadership.table import CANDIDATE_TABLE
from quarterdeck.core.reconcile.tables import HOLDING_TABLE, THING_TABLE
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WORKER_TABLE
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE

_PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"
_PLACE = re.compile(r"<!-- diagram: (?P<name>\w+) -->.*?<!-- /diagram -->", re.DOTALL)
_ALL = (WORK_TABLE, WORKER_TABLE, ATTEMPT_TABLE, THING_TABLE, HOLDING_TABLE, CANDIDATE_TABLE)
_TABLES = {table.name: table for table in _ALL}


def redrawn(page: str) -> str:
    """The page with every diagram drawn from its table. A diagram without a table, or the reverse, is an error."""
    names = [place["name"] for place in _PLACE.finditer(page)]
    if sorted(names) != sorted(_TABLES):
        raise ValueError(f"the page has diagrams of {sorted(names)}, there are tables of {sorted(_TABLES)}")
    return _PLACE.sub(lambda place: _drawn(place["name"]), page)


def _drawn(name: str) -> str:
    return f"<!-- diagram: {name} -->\n```mermaid\n{_TABLES[name].mermaid()}\n```\n<!-- /diagram -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.diagrams", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the current diagrams into the page")
    write = bool(parser.parse_args().write)
    page = _PAGE.read_text()
    current = redrawn(page)
    if write:
        _PAGE.write_text(current)
    elif current != page:
        print("the diagrams in ARCHITECTURE.md are not those of the tables: run python -m checks.diagrams --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
