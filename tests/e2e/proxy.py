"""A network between two processes that a test can stall, cut and damage."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_PROCESS = Path(__file__).with_name("proxy_process.py")


class Proxy:
    """Use it as a context. It has an address from the beginning; where to it leads may be said later."""

    def __init__(self, target: str | None = None) -> None:
        self._target = target

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_PROCESS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._answer()["port"])
        if self._target is not None:
            self.lead_to(self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def lead_to(self, target: str) -> None:
        """An address, or a URL, of the process behind it. Before this is said, nobody is let in."""
        parts = urlsplit(target if "://" in target else f"//{target}")
        self._tell("target", host=parts.hostname, port=parts.port)

    def restore(self) -> None:
        """From now on everything passes as it is; what was held back goes on."""
        self._tell("pass")

    def stall(self) -> None:
        """Connections are made and stay open, and nothing passes any more."""
        self._tell("stall")

    def damage(self) -> None:
        """What comes back from the process is changed where it is Parquet."""
        self._tell("damage")

    def cut(self) -> None:
        """All connections break."""
        self._tell("cut")

    def refuse(self) -> None:
        """New connections break at once."""
        self._tell("refuse")

    @property
    def open(self) -> int:
        """Connections now."""
        return int(self._tell("look")["open"])

    def _tell(self, do: str, **details: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the proxy has ended"
        return json.loads(line)
