"""What passes: `python -m tests.conformance.table` runs Prometheus' scripts and writes the table in docs/promql.md.

While working on the engine:

    python -m tests.conformance.table --failures functions.test            the first failures, in full
    python -m tests.conformance.table --failures --limit 3                 of all scripts that must pass
    python -m tests.conformance.table --file functions.test --line 123     one eval
    python -m tests.conformance.table --file my.test --shards 7            a script of our own
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarterdeck.metrics.promql.engine import Engine
from tests.conformance import files
from tests.conformance.runner import Outcome, QueryEngine, Verdict, run
from tests.conformance.script import Eval

PAGE: Final = files.PROJECT / "docs" / "promql.md"
BEGIN: Final = "<!-- conformance:begin -->"
END: Final = "<!-- conformance:end -->"


@dataclass(frozen=True, slots=True)
class Row:
    """A script's line of the table."""

    file: str
    passed: int
    total: int
    why: str


def row(file: str, outcomes: Sequence[Outcome]) -> Row:
    """Count how the evals of a script went."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    why = ""
    if failed := verdicts[Verdict.FAILED]:
        why = f"{failed} fail" + (f": {reason}" if (reason := files.EXPERIMENTAL.get(file)) else "")
    return Row(file, verdicts[Verdict.PASSED], len(outcomes), why)


def render(rows: Sequence[Row]) -> str:
    """The table in Markdown, with a line of sums."""
    lines = ["| file | passed | total | why |", "|---|---:|---:|---|"]
    lines += [f"| {one.file} | {one.passed} | {one.total} | {one.why} |" for one in rows]
    passed, total = sum(one.passed for one in rows), sum(one.total for one in rows)
    return "\n".join([*lines, f"| **all** | {passed} | {total} | |"])


def written(page: str, table: str) -> str:
    """A page with the table between its markers. `ValueError` when it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: write {BEGIN} and {END} where it belongs")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """The command line. Answers with 1 when an eval that must pass does not."""
    options = _options().parse_args(arguments)
    names: list[str] = options.failures or ([options.file] if options.file else [])
    with Engine() as engine:
        if options.failures is not None or options.file or options.line:
            return _show_failures(engine, names or list(files.STABLE), options.line, options.limit, options.shards)
        started = time.perf_counter()
        rows = [
            row(name, list(run(files.read(files.folder() / name), engine, options.shards)))
            for name in sorted([*files.STABLE, *files.EXPERIMENTAL])
        ]
    print(f"{len(rows)} scripts in {time.perf_counter() - started:.1f} s", file=sys.stderr)
    table = render(rows)
    print(table)
    if not options.dry_run:
        page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else f"# PromQL\n\n{BEGIN}\n{END}\n"
        try:
            PAGE.write_text(written(page, table), encoding="utf-8")
        except ValueError as error:
            raise SystemExit(f"{PAGE}: {error}") from error
    stable = [one for one in rows if one.file in files.STABLE]
    return int(any(one.passed < one.total for one in stable))


def _show_failures(engine: QueryEngine, names: Sequence[str], line: int | None, limit: int, shards: int) -> int:
    def wanted(command: Eval) -> bool:
        return line is None or command.line == line

    shown = 0
    verdicts: Counter[Verdict] = Counter()
    for name in names:
        for outcome in run(files.read(_path(name)), engine, shards, wanted):
            verdicts[outcome.verdict] += 1
            if outcome.verdict is Verdict.FAILED and shown < limit:
                shown += 1
                print(outcome.why, end="\n\n")
            elif line is not None:
                print(f"{outcome.file}:{line}: {outcome.verdict} {outcome.why}")
    if line is not None and not verdicts:
        print(f"there is no eval at line {line} of {', '.join(names)}: name the line that starts with eval")
        return 2
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict)
    print(counts + (f" ({shown} shown: --limit shows more)" if shown < verdicts[Verdict.FAILED] else ""))
    return int(verdicts[Verdict.FAILED] > 0)


def _path(name: str) -> Path:
    """A script by its name: one of Prometheus', one of our own, or any file."""
    for path in (files.folder() / name, files.OWN_FOLDER / name, Path(name)):
        if path.is_file():
            return path
    raise SystemExit(f"there is no script {name} in {files.folder()}, in {files.OWN_FOLDER} or here")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.conformance.table", description="run Prometheus' test scripts")
    parser.add_argument("--failures", nargs="*", metavar="FILE", help="show failures of these, or of all stable ones")
    parser.add_argument("--file", help="show failures of this script")
    parser.add_argument("--line", type=int, help="run only the eval that starts at this line")
    parser.add_argument("--limit", type=int, default=20, help="how many failures to show (20)")
    parser.add_argument("--shards", type=int, default=1, help="over how many sources to spread the series (1)")
    parser.add_argument("--dry-run", action="store_true", help="print the table and leave docs/promql.md alone")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
