"""`quarterdeck recruiter`: settings in, a process out; it does not return."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from quarterdeck.config import load_recruiter
from quarterdeck.crew.process.launching import begin, guard_of, live

if TYPE_CHECKING:
    from quarterdeck.search.process import Recruiter
    from quarterdeck.stores.data_folder import DataFolder


def run(config: Path | None, flags: Mapping[str, object], lifeline: int | None) -> NoReturn:
    settings = load_recruiter(config, flags)
    begin(settings)

    def make(folder: "DataFolder") -> "Recruiter":
        from quarterdeck.engines.code_folder import share_code_in  # noqa: PLC0415 - settings come first
        from quarterdeck.search.process import Recruiter  # noqa: PLC0415

        share_code_in(folder.path)
        return Recruiter(settings, folder, guard_of(settings, folder.path, settings.http_host))

    live(settings.data_dir, make, lifeline)
