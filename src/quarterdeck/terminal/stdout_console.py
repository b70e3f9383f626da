"""Rich on stdout, for output that may be piped: if the reader ends, that is an error here, not an exit of the
process."""

from rich.console import Console
from rich.table import Table

_ANY_WIDTH = 1_000_000


class StdoutConsole(Console):
    def __init__(self) -> None:
        super().__init__(highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print_whole(self, table: Table) -> None:
        """Within the window; where there is none, nothing is cut."""
        if not self.is_terminal:
            self.width = max(self.width, self._free_width(table))
        self.print(table)

    def has_room(self, table: Table) -> bool:
        """Whether the window, if there is one, is wide enough for all of it."""
        return not self.is_terminal or self._free_width(table) <= self.width

    def _free_width(self, table: Table) -> int:
        return self.measure(table, options=self.options.update(max_width=_ANY_WIDTH)).maximum
