"""Scans: one SELECT over many Parquet files, with one answer."""

from typing import Final

from quarterdeck.capability import Capability, Command, Shelf
from quarterdeck.core.named import Named
from quarterdeck.core.workcoord.kinds import WorkKind

_KIND: Final = WorkKind("scan")
SCAN: Final = Capability(
    name="scan",
    coordinator_settings=Named("quarterdeck.scan.settings:ScanSettings"),
    on_coordinator=Named("quarterdeck.scan.on_coordinator:ScansOnCoordinator"),
    on_worker=Named("quarterdeck.scan.on_worker:ScansOnWorker"),
    kinds=(_KIND,),
    old_kinds={"search": _KIND},
    to_try=("quarterdeck scan 'select count(*) as n from files' FOLDER",),
    commands=(
        Command(
            "demo",
            "See a query survive the loss of a worker.",
            Named("quarterdeck.scan.commands.signatures:demo"),
            Shelf.FIRST_STEPS,
        ),
        Command("scan", "Run SQL over Parquet files on the crew.", Named("quarterdeck.scan.commands.signatures:scan")),
    ),
)
