"""`quarterdeck recruiter`: settings in, a process out; it does not return."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from quarterdeck.capability import Capability
from quarterdeck.capability.settings import configuration
from quarterdeck.crew.process.launching import begin, guard_of, live
from quarterdeck.search.settings import RECRUITER_SETTINGS

if TYPE_CHECKING:
    from quarterdeck.search.process import Recruiter
    from quarterdeck.stores.data_folder import DataFolder


def run(
    capabilities: Sequence[Capability], config: Path | None, flags: Mapping[str, object], lifeline: int | None
) -> NoReturn:
    settings = configuration(capabilities).load(RECRUITER_SETTINGS, config, flags)
    begin(settings)

    def make(folder: "DataFolder") -> "Recruiter":
        from quarterdeck.engines.code_folder import share_code_in  # noqa: PLC0415 - settings come first
        from quarterdeck.search.process import Recruiter  # noqa: PLC0415

        share_code_in(folder.path)
        return Recruiter(settings, folder, guard_of(settings, folder.path, settings.http_host))

    live(settings.data_dir, make, lifeline)
