"""A process that is told to stop while it compiles what it needs, which cannot be told to stop, ends all the same."""

import signal
from pathlib import Path

import pytest

from tests.crew.processes import said, started
from tests.patience import PATIENCE_S

COMPILES_FOR_EVER = """
    import sys
    import threading
    import quarterdeck.{module} as process
    from quarterdeck.command import main

    def compile():
        print("compiles", flush=True)
        threading.Event().wait()

    process.{function} = compile
    sys.argv = ["quarterdeck", {words}, "--data-dir", {folder!r}, "--http-port", "0"]
    main()
"""


@pytest.mark.parametrize(
    "module, function, words",
    [
        ("metrics.executor", "warm", '"worker", "--join", "127.0.0.1:1"'),
        ("metrics.on_coordinator", "warm_all", '"coordinator", "--control-port", "0"'),
    ],
    ids=["worker", "coordinator"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_compiles_stops_when_it_is_told(
    module: str, function: str, words: str, number: signal.Signals, tmp_path: Path
) -> None:
    code = COMPILES_FOR_EVER.format(module=module, function=function, words=words, folder=str(tmp_path / "data"))
    with started(code) as process:
        assert said(process) == "compiles"
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, told
        assert "by force" not in told
        assert "worker is up" not in told
