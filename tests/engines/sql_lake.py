"""Files of one kind, files of several, and files in folders that are columns: to be asked SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.scan.path_columns import path_columns
from tests.engines.divided import write

ROWS = (0, 1, 5, 40, 120, 13)
DAYS = ("2026-01-01", "2026-01-02", "__HIVE_DEFAULT_PARTITION__", "2026-01-02", "2026-01-04", "2026-01-05")


@dataclass(frozen=True, slots=True)
class Lake:
    files: Sequence[ScanFile]
    columns: Sequence[PathColumn] = ()

    def divided(self, groups: int) -> list[Sequence[ScanFile]]:
        size = len(self.files) // groups
        return [self.files[at : at + size] for at in range(0, len(self.files), size)]


def of_one_kind(folder: Path) -> Lake:
    """Numbers of all kinds, with nulls, NaN, and values that stand in several files."""
    return Lake([_file(folder / f"f{place}.parquet", place, "*") for place in range(len(ROWS))])


def of_several_kinds(folder: Path) -> Lake:
    """The first and the second half each are of one kind; but not with each other, by one thing."""
    stars = ["*"] * 3 + ["* REPLACE (a::BIGINT AS a, g::VARCHAR AS g)"] * 2 + ["* EXCLUDE (s), s, 1 AS more"]
    return Lake([_file(folder / f"m{place}.parquet", place, star) for place, star in enumerate(stars)])


def of_other_orders(folder: Path) -> Lake:
    """Of one kind, but that two columns of one type have changed places in the second half."""
    stars = ["* REPLACE (g::INT AS g)"] * 3 + ["g::INT AS g, a, * EXCLUDE (a, g)"] * 3
    return Lake([_file(folder / f"o{place}.parquet", place, star) for place, star in enumerate(stars)])


def of_folders(folder: Path) -> Lake:
    """With the columns `day` and `ut`, which the files have too."""
    paths = [folder / f"day={day}" / f"ut={place % 2}" / f"{place}.parquet" for place, day in enumerate(DAYS)]
    columns, values = path_columns([str(path) for path in paths])
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    files = [_file(path, place, "*") for place, path in enumerate(paths)]
    return Lake([ScanFile(file.path, file.name, row) for file, row in zip(files, values, strict=True)], columns)


def _file(path: Path, place: int, star: str) -> ScanFile:
    write(f"SELECT {star} FROM ({_rows(place)})", path)
    return ScanFile(path, f"s3://lake/{path.name}")


def _rows(i: int) -> str:
    return f"""
        SELECT (range * 7 + {i})::INT a, CASE WHEN range % 5 > 0 THEN (range % 4)::SMALLINT END g,
            (range % 3)::UTINYINT ut, CASE WHEN range % 11 = 0 THEN 'nan'::DOUBLE WHEN range % 7 > 0
                THEN ((range * 37 + {i}) % 17)::DOUBLE / 4 END d, ((range * 13 + {i}) % 23)::FLOAT / 2 f,
            ((range * 31 + {i}) % 1000 / 8)::DECIMAL(9, 2) e, (range * 1000000007 + {i}) * 1000003 b,
            ((range % 9) - 4)::HUGEINT * 100000000000000000000 h, ['x', 'Ä', NULL][range % 3 + 1] s,
            DATE '2026-01-01' + (range % 10)::INT dt, TIMESTAMP '2026-01-01' + INTERVAL (range) HOUR ts,
            TIMESTAMPTZ '2026-01-01' + INTERVAL (range) MINUTE tz, range % 2 = 0 bo,
            (range % 3)::VARCHAR::ENUM('2', '1', '0') en, [range % 2] l, {{'p': range % 2, 'q': 'z'}} st,
            TIME '10:00' + INTERVAL (range % 50) MINUTE ti, (range % 13)::UBIGINT ub,
            ('00000000-0000-0000-0000-00000000000' || range % 4)::UUID uu
        FROM range({ROWS[i]})"""
