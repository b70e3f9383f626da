"""A child that starts in no time and behaves as it is told: `--mode` says how."""

import argparse
import json
import os
import select
import signal
import sys
from pathlib import Path


def _end_well(_number: int, _frame: object) -> None:
    sys.exit(0)


def _end_badly(_number: int, _frame: object) -> None:
    sys.exit(124)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--handed-settings", type=int)
    parser.add_argument("--handed-when", type=int)
    given = parser.parse_args()
    data_dir: Path = given.data_dir
    data_dir.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if given.mode == "stubborn" else _end_well)
    match given.mode:
        case "refused":
            sys.stderr.write('{"event": "something"}\nquarterdeck: the port is busy: somebody has it; take another\n')
            return 69
        case "broken":
            sys.stderr.write("Traceback\n  somewhere\nZeroDivisionError: division by zero\n")
            return 1
        case "unclean":
            signal.signal(signal.SIGTERM, _end_badly)
        case _:
            pass
    if given.handed_when is not None:
        _say(data_dir / "waits.json", {"pid": os.getpid()})
        with os.fdopen(given.handed_when) as pipe:
            pipe.read()
    settings = ""
    if given.handed_settings is not None:
        with os.fdopen(given.handed_settings) as handed:
            handed.seek(0)
            settings = handed.read()
    if given.mode == "compiling":  # until somebody says that it may go on
        _say(data_dir / "compiling.json", {"pid": os.getpid()})
        while not (data_dir / "go on").exists():
            select.select([given.lifeline], [], [], 0.01)
    if given.mode != "silent":
        told = {"pid": os.getpid(), "http": "http://127.0.0.1:1", "arguments": sys.argv[1:], "settings": settings}
        _say(data_dir / "addresses.json", told)
    select.select([given.lifeline], [], [])
    (data_dir / "cut loose").touch()
    return 0


def _say(file: Path, what: object) -> None:
    """All of it at once: somebody looks for the file meanwhile."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(what))
    part.replace(file)


sys.exit(main())
