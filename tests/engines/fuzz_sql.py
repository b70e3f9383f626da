"""Compares divided answers to random SQL with DuckDB's own over the same files.

Run `python -m tests.engines.fuzz_sql --seed 7 --count 5000`. It prints every difference, and how many questions were
answered in which way, and exits with 1 if there was a difference. An error where DuckDB has an answer is none, as long
as it is one of those that are meant to be; an answer where DuckDB has an error is one.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines.duckdb_prune import kept_files
from quarterdeck.engines.merge_question import PruneQuestion
from quarterdeck.engines.sql_split import Way
from tests.engines import sql_lake
from tests.engines.divided import Crew, alone
from tests.engines.kept_database import connected
from tests.engines.same_answer import difference
from tests.engines.sql_lake import Lake
from tests.engines.wild_sql import Question, WildQuestions

_MEANT = (
    "is a column of the files and also the name of a column of the result",
    "in some files",
    "stand in another order",
    "more than one of its columns is called",
    "Unhandled type for Arrow to Parquet",
)
"""Errors where DuckDB has an answer."""
_BY_CHANCE = ("Overflow", "Out of Range", "Conversion Error")
"""Errors that DuckDB meets or not by the order in which it evaluates."""
_arrow: Any = pyarrow


@dataclass(frozen=True, slots=True)
class Verdict:
    way: str
    difference: str | None = None


def judged(crew: Crew, lake: Lake, question: Question, groups: int) -> Verdict:
    wanted: Any
    try:
        wanted = alone(question.sql, lake.files)
    except duckdb.Error as error:
        wanted = error
    try:
        plan, got = crew.answer(question.sql, _kept(question, lake, groups), lake.columns)
    except (QuarterdeckError, duckdb.Error, _arrow.ArrowNotImplementedError) as error:
        text = str(error)
        is_meant = isinstance(error, _arrow.ArrowNotImplementedError) or any(
            each in text for each in (*_MEANT, *_BY_CHANCE)
        )
        if isinstance(wanted, Exception) or is_meant:
            return Verdict("error")
        return Verdict("error", f"an error, where DuckDB has an answer: {text}")
    if plan.way is Way.TOGETHER:
        return Verdict(plan.way)
    if isinstance(wanted, Exception):
        text = str(wanted)
        is_meant = any(each in text for each in _BY_CHANCE)
        return Verdict(plan.way, None if is_meant else f"an answer, where DuckDB has an error: {text}")
    return Verdict(
        plan.way, difference(got, wanted, is_sorted=question.is_sorted, is_cut=question.is_cut, is_about=True)
    )


def _kept(question: Question, lake: Lake, groups: int) -> Any:
    """The files of each work, without those whose path says that they have no row."""
    if not lake.columns:
        return lake.divided(groups)
    columns = tuple((column.name, column.kind) for column in lake.columns)
    asked = PruneQuestion(question.sql, columns, tuple(file.values for file in lake.files))
    with connected() as database:
        try:
            places = kept_files(database, asked)
        except duckdb.Error:
            places = None
    files = lake.files if places is None else [lake.files[place] for place in places] or lake.files[:1]
    return Lake(files, lake.columns).divided(min(groups, len(files)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.fuzz_sql", description="Fuzz the division of SQL.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000)
    arguments = parser.parse_args()
    found: Counter[str] = Counter()
    differences = 0
    with TemporaryDirectory(prefix="quarterdeck-sql-") as name:
        folder = Path(name)
        crew = Crew(folder)
        lakes: list[Lake] = []
        for make in (
            sql_lake.of_one_kind,
            sql_lake.of_several_kinds,
            sql_lake.of_folders,
            sql_lake.of_other_orders,
        ):
            (folder / make.__name__).mkdir()
            lakes.append(make(folder / make.__name__))
        names = [[column.name for column in lake.columns] for lake in lakes]
        questions = [WildQuestions(arguments.seed + place, names[place]) for place in range(len(lakes))]
        for number in range(arguments.count):
            lake, groups = lakes[(0, 0, 0, 0, 1, 2, 3)[number % 7]], (2, 3, 6)[number % 3]
            question = questions[lakes.index(lake)].next()
            verdict = judged(crew, lake, question, groups if lake is not lakes[1] else 2)
            found[verdict.way] += 1
            if verdict.difference is not None:
                differences += 1
                print(
                    f"question: {question.sql}\nlake {lakes.index(lake)}, {groups} works\n{verdict.difference}\n",
                    flush=True,
                )
        crew.close()
    print(", ".join(f"{count:,} {way}" for way, count in found.most_common()), f"{differences} differences", sep="; ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
