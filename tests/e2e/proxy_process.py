"""A TCP proxy on loopback that does to connections what networks do: stalls them, cuts them, damages them.

It is a process of its own, so that its sockets are nobody else's. One line of JSON in is one command, one line out the
answer. It ends when its standard input does.
"""

import asyncio
import json
import os
import socket
import struct
import sys
from typing import Any

_PIECE_BYTES = 64 * 1024
_MARK = b"PAR1"
"""How Parquet begins and ends; damaged, it is another one."""
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    def __init__(self) -> None:
        self._target: tuple[str, int] | None = None
        self._mode = "pass"
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._accepted = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "target":
                self._target = (command["host"], int(command["port"]))
            case "cut":
                self._cut()
            case "look":
                pass
            case mode:
                self._mode = mode
                (self._flows.clear if mode == "stall" else self._flows.set)()
        return {"open": len(self._writers) // 2, "accepted": self._accepted}

    def _cut(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse" or self._target is None:
            _abort(writer)
            return
        self._accepted += 1
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _abort(writer)
            return
        self._writers |= {writer, there_writer}
        pumps = [
            asyncio.create_task(self._pump(reader, there_writer, damages=False)),
            asyncio.create_task(self._pump(there_reader, writer, damages=True)),
        ]
        try:
            await asyncio.wait(pumps)
        finally:
            self._writers -= {writer, there_writer}
            for pump in pumps:
                pump.cancel()
            for end in (writer, there_writer):
                end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, damages: bool) -> None:
        try:
            while data := await reader.read(_PIECE_BYTES):
                await self._flows.wait()
                if damages and self._mode == "damage":
                    data = data.replace(_MARK, _MARK.lower())
                writer.write(data)
                await writer.drain()
            await self._flows.wait()
            writer.write_eof()
        except OSError:
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """A reset, which a peer sees at once."""
    sock: socket.socket = writer.get_extra_info("socket")
    if sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def main() -> None:
    proxy = Proxy()
    _say({"port": await proxy.listen()})
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        _say(proxy.obey(json.loads(line)))
    os._exit(0)  # with whatever is open


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
