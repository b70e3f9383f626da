"""`quarterdeck coordinator` and `quarterdeck worker`: they read settings and run a process.

Settings are read before anything else is loaded, so mistakes in them are reported at once. No function returns: the end
of the process is the end of the program.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from quarterdeck.capability import Capability
from quarterdeck.capability.settings import configuration
from quarterdeck.crew.process.launching import begin, guard_of, live, prepare_to_load

if TYPE_CHECKING:
    from quarterdeck.coordinator.process import Coordinator
    from quarterdeck.stores.data_folder import DataFolder
    from quarterdeck.worker.process import Worker


def run_coordinator(
    capabilities: Sequence[Capability], config: Path | None, flags: Mapping[str, object], lifeline: int | None
) -> NoReturn:
    settings = configuration(capabilities).load_coordinator(config, flags)
    begin(settings)

    def make(folder: "DataFolder") -> "Coordinator":
        from quarterdeck.coordinator.process import Coordinator  # noqa: PLC0415 - see above

        _find_compiled_code(capabilities, folder)
        guard = guard_of(settings, folder.path, settings.http_host, settings.control_host)
        return Coordinator(settings, folder, guard, capabilities)

    live(settings.data_dir, make, lifeline)


def run_worker(
    capabilities: Sequence[Capability], config: Path | None, flags: Mapping[str, object], lifeline: int | None
) -> NoReturn:
    settings = configuration(capabilities).load_worker(config, flags)
    begin(settings)

    def make(folder: "DataFolder") -> "Worker":
        from quarterdeck.control.discovery import split_address  # noqa: PLC0415 - see above
        from quarterdeck.worker.process import Worker  # noqa: PLC0415

        _find_compiled_code(capabilities, folder)
        listens = [] if settings.control_listen is None else [split_address(settings.control_listen)[0]]
        guard = guard_of(settings, folder.path, settings.http_host, *listens)
        return Worker(settings, folder, guard, capabilities)

    live(settings.data_dir, make, lifeline)


def load_worker_ahead(capabilities: Sequence[Capability]) -> None:
    """What every worker imports, before its settings are known."""
    prepare_to_load()
    import_module("quarterdeck.worker.process")
    for one in capabilities:
        if one.on_worker is not None:
            one.on_worker.load()


def _find_compiled_code(capabilities: Sequence[Capability], folder: "DataFolder") -> None:
    """Its place, before anything asks for it; and if there is none yet, whoever waits for the start is told that it
    takes longer."""
    from quarterdeck.cli.compiled_code import everything  # noqa: PLC0415 - see above
    from quarterdeck.engines.code_folder import share_code_in  # noqa: PLC0415

    share_code_in(folder.path)
    if not everything(capabilities).is_set():
        folder.say_compiling()
