"""A process from its settings: what each needs before anything else of it is loaded.

Settings are read before this: what is wrong with them is told at once. The end of the process is the end of the
program.
"""

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from quarterdeck.config.shared import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from quarterdeck.crew.process.guard import Guard
    from quarterdeck.crew.process.lifecycle import ForcedEnd, StopSignals
    from quarterdeck.stores.data_folder import DataFolder


class Process(Protocol):
    async def run(self, signals: "StopSignals", forced_end: "ForcedEnd") -> int:
        """Lives until it is told to stop; the exit code."""
        ...


_DONE_WITHOUT: Final = (
    "mako.ext.pygmentplugin",  # colours for errors in templates: 4 MB when Alembic is loaded, which has none
    "pydantic.v1",  # FastAPI looks whether somebody still uses it
    "pyarrow._azurefs",  # Arrow's own ways to buckets and clusters; ours is obstore
    "pyarrow._gcsfs",
    "pyarrow._hdfs",
    "pyarrow._s3fs",
)
"""What libraries load for themselves if it is there, and nobody uses here."""
_OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000
"""What is loaded stays. Python looks for garbage after each 700 objects: a tenth of the work of loading."""


def prepare_to_load() -> None:
    """How libraries are loaded, and what they read from the environment then."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    modules: dict[str, Any] = sys.modules
    for name in _DONE_WITHOUT:
        modules.setdefault(name, None)  # as import statements have it of what cannot be imported
    # What Parquet's readers and writers take comes from nowhere else: only then does one call give back all that
    # queries have freed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # what its core says at `info` is no record, and for nobody
    # NumPy's linear algebra, which nobody uses here, would start threads that spin for 40 ms when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def begin(settings: ProcessSettings) -> None:
    """To be called before what a process is made of is imported."""
    prepare_to_load()
    from quarterdeck.telemetry.logs import configure  # noqa: PLC0415 - see above
    from quarterdeck.telemetry.traces import configure_tracing  # noqa: PLC0415

    log_format = settings.log_format
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    configure(log_format, settings.log_level, role=settings.process)
    configure_tracing(f"quarterdeck-{settings.process}")


def live(data_dir: Path, make: "Callable[[DataFolder], Process]", lifeline: int | None) -> NoReturn:
    """Makes the process in its folder, and runs it to its end."""
    from quarterdeck.crew.process.lifecycle import leave, run_process  # noqa: PLC0415 - see above
    from quarterdeck.stores.data_folder import DataFolder  # noqa: PLC0415

    with DataFolder(data_dir) as folder:
        run: Callable[[StopSignals, ForcedEnd], Coroutine[Any, Any, int]] = make(folder).run
        code = run_process(run, lifeline)
    leave(code)


def guard_of(settings: ProcessSettings, folder: Path, *hosts: str) -> "Guard":
    """Who may come in; `hosts` are all those it listens on."""
    from quarterdeck.crew.process.guard import Guard  # noqa: PLC0415 - see above

    return Guard.load(
        tls_certificate=settings.tls_certificate,
        tls_key=settings.tls_key,
        tls_authority=settings.tls_authority,
        token_file=settings.token_file,
        insecure=settings.insecure,
        folder=folder,
        hosts=hosts,
        reading_needs_token=settings.reading_needs_token,
        names=settings.http_names,
        origins=settings.http_origins,
    )
