"""`quarterdeck coordinator`, `quarterdeck worker` and `quarterdeck recruiter`: settings in, a process out.

Settings are read before anything else is loaded: what is wrong with them is told at once. No function returns: the end
of the process is the end of the program.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from quarterdeck.config import (
    CoordinatorSettings,
    RecruiterSettings,
    WorkerSettings,
    load_coordinator,
    load_recruiter,
    load_worker,
)

if TYPE_CHECKING:
    from quarterdeck.crew.process.guard import Guard
    from quarterdeck.stores.data_folder import DataFolder

_Settings: TypeAlias = CoordinatorSettings | WorkerSettings | RecruiterSettings


def run_coordinator(config: Path | None, flags: Mapping[str, object], lifeline: int | None) -> NoReturn:
    settings = load_coordinator(config, flags)
    _begin(settings, "coordinator")
    from quarterdeck.coordinator.process import Coordinator  # noqa: PLC0415 - see above
    from quarterdeck.crew.process.lifecycle import leave, run_process  # noqa: PLC0415
    from quarterdeck.stores.data_folder import DataFolder  # noqa: PLC0415

    with DataFolder(settings.data_dir) as folder:
        _find_compiled_code(folder)
        process = Coordinator(settings, folder, _guard(settings, folder.path, settings.control_host))
        code = run_process(process.run, lifeline)
    leave(code)


def run_worker(config: Path | None, flags: Mapping[str, object], lifeline: int | None) -> NoReturn:
    settings = load_worker(config, flags)
    _begin(settings, "worker")
    from quarterdeck.control.discovery import split_address  # noqa: PLC0415 - see above
    from quarterdeck.crew.process.lifecycle import leave, run_process  # noqa: PLC0415
    from quarterdeck.stores.data_folder import DataFolder  # noqa: PLC0415
    from quarterdeck.worker.process import Worker  # noqa: PLC0415

    with DataFolder(settings.data_dir) as folder:
        _find_compiled_code(folder)
        listens = [] if settings.control_listen is None else [split_address(settings.control_listen)[0]]
        process = Worker(settings, folder, _guard(settings, folder.path, *listens))
        code = run_process(process.run, lifeline)
    leave(code)


def run_recruiter(config: Path | None, flags: Mapping[str, object], lifeline: int | None) -> NoReturn:
    settings = load_recruiter(config, flags)
    _begin(settings, "recruiter")
    from quarterdeck.crew.process.lifecycle import leave, run_process  # noqa: PLC0415 - see above
    from quarterdeck.recruiter_process.process import Recruiter  # noqa: PLC0415
    from quarterdeck.stores.data_folder import DataFolder  # noqa: PLC0415

    with DataFolder(settings.data_dir) as folder:
        _find_compiled_code(folder)
        process = Recruiter(settings, folder, _guard(settings, folder.path))
        code = run_process(process.run, lifeline)
    leave(code)


def _begin(settings: _Settings, role: str) -> None:
    # Arrow reads it when it is loaded. What Parquet's readers and writers take comes from nowhere else: only then does
    # one call give back all that queries have freed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from quarterdeck.telemetry.logs import configure  # noqa: PLC0415 - see above
    from quarterdeck.telemetry.traces import configure_tracing  # noqa: PLC0415

    log_format = settings.log_format
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    configure(log_format, settings.log_level, role=role)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # what its core says at `info` is no record, and for nobody
    configure_tracing(f"quarterdeck-{role}")


def _find_compiled_code(folder: "DataFolder") -> None:
    """Its place, before anything asks for it; and if there is none yet, whoever waits for the start is told that it
    takes longer."""
    from quarterdeck.cli.compiled_code import everything  # noqa: PLC0415 - see above
    from quarterdeck.engines.code_folder import share_code_in  # noqa: PLC0415

    share_code_in(folder.path)
    if not everything().is_set():
        folder.say_compiling()


def _guard(settings: _Settings, folder: Path, *hosts: str) -> "Guard":
    """`hosts` are where it listens besides its HTTP server."""
    from quarterdeck.crew.process.guard import Guard  # noqa: PLC0415 - see above

    return Guard.load(
        tls_certificate=settings.tls_certificate,
        tls_key=settings.tls_key,
        tls_authority=settings.tls_authority,
        token_file=settings.token_file,
        insecure=settings.insecure,
        folder=folder,
        hosts=(settings.http_host, *hosts),
        reading_needs_token=settings.reading_needs_token,
        names=settings.http_names,
        origins=settings.http_origins,
    )
