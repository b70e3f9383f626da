"""Rich on stdout, for what may be piped: a reader that goes away is an error here, not an exit of the process."""

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
            free = self.options.update(max_width=_ANY_WIDTH)
            self.width = max(self.width, self.measure(table, options=free).maximum)
        self.print(table)
