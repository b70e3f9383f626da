"""A peer in a process of its own, to be killed or stopped: dials, says one thing, and then only lives.

Run it with the address to dial. It ends when its standard input does.
"""

import asyncio
import sys

from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import Envelope
from quarterdeck.core.workcoord.messages import Goodbye


async def main() -> None:
    dialer = GrpcDialer(Identity("process"))
    link = await dialer.dial(sys.argv[1])
    await link.send(Envelope(None, 0, (Goodbye("never"),)))
    await asyncio.to_thread(sys.stdin.read)
    link.close()
    await dialer.close()


asyncio.run(main())
