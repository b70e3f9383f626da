"""What could not be searched, gathered over all chunks: a file that was searched in parts is told once."""

from collections.abc import Iterable

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.model import Chunk, FileProblem

_KEPT_MAX = 1000
"""Problems that are told one by one. With more files that are broken, the first show what is wrong."""
_NAMED_MAX = 3


class Problems:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str], int] = {}
        self._left_out = 0
        self._failed_pieces = 0
        self.bad_lines = 0
        """In all files together."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, problems: Iterable[FileProblem]) -> None:
        """Of one chunk, in which each file is at most once."""
        told = list(problems)
        self._failed_pieces += len({problem.url for problem in told if not problem.lines})
        for problem in told:
            self.bad_lines += problem.lines
            key = problem.url, problem.why
            if key in self._found or len(self._found) < _KEPT_MAX:
                self._found[key] = self._found.get(key, 0) + problem.lines
            else:
                self._left_out += 1

    def add_all(self, chunk: Chunk, why: str) -> None:
        """Nothing of the chunk was searched."""
        self.add(FileProblem(piece.url, why) for piece in chunk.pieces)

    def told(self) -> tuple[FileProblem, ...]:
        told = tuple(FileProblem(url, why, lines) for (url, why), lines in self._found.items())
        if self._left_out:
            told += (FileProblem("", f"{self._left_out:,} more problems are not told one by one"),)
        return told

    def documents(self) -> list[dict[str, object]]:
        return [{"url": problem.url, "why": problem.why, "lines": problem.lines} for problem in self.told()]

    def spared_nothing(self, pieces: int) -> bool:
        """Whether not one of so many pieces could be searched."""
        return 0 < pieces <= self._failed_pieces

    def named(self) -> str:
        """The first of them, in a line."""
        problems = self.told()
        named = "; ".join(f"{problem.url}: {problem.why}" for problem in problems[:_NAMED_MAX])
        return named + (f"; and {len(problems) - _NAMED_MAX:,} more" if len(problems) > _NAMED_MAX else "")

    def error(self) -> QuarterdeckError:
        """For a search of which nothing is left."""
        return QuarterdeckError(
            ErrorCode.WORK_FAILED, "nothing could be searched", self.named(), "repair the files, or name others"
        )
