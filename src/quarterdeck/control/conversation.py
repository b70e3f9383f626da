"""The traffic of one session: a bounded outbox with one writer, a reader, numbered envelopes. It is the same on both
sides.

Messages are collected and written in as few envelopes as the peer's pace allows. A peer that does not read fills the
outbox, and loses the connection: nothing is ever buffered without limit.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from quarterdeck.control.link import Envelope, Link, LinkClosedError, Message, ProtocolError
from quarterdeck.core.ids import SessionId
from quarterdeck.core.reconcile.messages import HoldingsReported, HoldThing
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    DiskReported,
    WorkAccepted,
    WorkFailed,
    WorkProgressed,
)
from quarterdeck.core.workcoord.peer import LossReason

OUTBOX_LIMIT = 10_000
"""Messages waiting for a peer that does not read. Beats alone take hours to fill it; a burst of assignments fits."""
OUTBOX_LIMIT_BYTES = 64 * 1024 * 1024
"""And what their payloads may take."""
STALL_S = 30.0
"""How long one write may wait for a peer to read. One that still beats and has not read for so long is broken."""
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024
"""The largest payload of a work: well within an envelope."""

_PER_ENVELOPE = 512
_PER_ENVELOPE_BYTES = 1024 * 1024
"""An envelope is full when its payloads are this large; one larger payload fills one alone."""
_PATIENT = (ArtifactAck, DiskReported, WorkAccepted, WorkProgressed)
"""Words that are in no hurry: nobody waits for them, and others soon follow that they can go with. That a work is begun
again is urgent: it may be what ended the worker before, and about to do so again."""
_PATIENCE_S = 0.020
_DISTANCE_S = 0.001
"""Between two envelopes: each costs gRPC some 150 µs on either side. A word after a silence still goes at once."""
_HOLDING_BYTES = 256
"""What a report takes for each thing, about."""
_FLUSH_S = 1.0
"""How long a closing session waits for its last words to be written."""
DOES_NOT_READ = "the peer does not read"
_WORDS_UNSAID = "closed by us with words unsaid: the peer does not read"


class Conversation:
    """A connection from the first word to the last. `talk` runs it; `send` and `finish` may be called at any time."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.session_id: SessionId | None = None
        self.unread: Sequence[Message] = ()
        """Messages that came with the one that began the session."""
        self._outbox: deque[Message] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()
        self._finishing = False
        self._gathered = 0
        """Messages since the last write began that are not patient by nature."""
        self._sent = 0
        self._received = 0
        self._why = ""
        self._last_call: asyncio.TimerHandle | None = None
        self._reminder: asyncio.TimerHandle | None = None
        """When to write what is in no hurry."""
        self._next_write_at = 0.0
        self.loss = LossReason.CONNECTION_LOST
        """Why it ended, if nobody of us asked for the end."""

    @property
    def finishing(self) -> bool:
        """Whether we have decided to end it."""
        return self._finishing

    def send(self, message: Message, company: int = 0) -> None:
        """Queues a message. It goes at once, or when so many have gathered as it wants for company, or enough for an
        envelope; and soon in any case. A peer that has let the outbox fill up is cut off instead."""
        if len(self._outbox) >= OUTBOX_LIMIT or self._outbox_bytes >= OUTBOX_LIMIT_BYTES:
            self._cut(DOES_NOT_READ, LossReason.NOT_READING)
            return
        self._outbox.append(message)
        self._outbox_bytes += _payload_bytes(message)
        if not isinstance(message, _PATIENT) or (type(message) is WorkAccepted and message.attempt.number > 1):
            self._gathered += 1
            if self._gathered >= company or self._outbox_bytes >= _PER_ENVELOPE_BYTES:
                self._wake.set()
                return
        if self._reminder is None:
            self._reminder = asyncio.get_running_loop().call_later(_PATIENCE_S, self._wake.set)

    def finish(self) -> None:
        """Closes the connection once everything sent so far is written, or soon if the peer does not read."""
        if not self._finishing:
            self._finishing = True
            self._wake.set()
            self._last_call = asyncio.get_running_loop().call_later(_FLUSH_S, self._cut, _WORDS_UNSAID)

    async def say(self, message: Message) -> None:
        """Writes one message now; for the words before there is a session."""
        await self.link.send(self._stamp([message]))

    async def hear(self) -> tuple[Message, ...]:
        """The messages of the next envelope, after checking that it is the next and of this session."""
        envelope = await self.link.receive()
        if envelope.sequence != self._received:
            raise ProtocolError(f"envelope {envelope.sequence} came where {self._received} was due")
        if self.session_id is not None and envelope.session_id != self.session_id:
            raise ProtocolError(f"an envelope of session {envelope.session_id} came on session {self.session_id}")
        self._received += 1
        return envelope.messages

    async def talk(self, take: Callable[[Iterable[Message]], None]) -> str:
        """Reads and writes until either side ends it; says why it ended. The connection is closed then."""
        writer = asyncio.create_task(self._write(), name=f"write {self.session_id}")
        writer.add_done_callback(lambda _: self.link.close())
        try:
            reason = await self._read(take)
        finally:
            self.link.close()
            for timer in (self._last_call, self._reminder):
                if timer is not None:
                    timer.cancel()
            writer.cancel()
            await asyncio.wait((writer,))
        if not writer.cancelled():
            writer.result()  # a message that cannot be written is a bug of ours, and no way for a session to end
        return reason

    async def _read(self, take: Callable[[Iterable[Message]], None]) -> str:
        try:
            take(self.unread)
            while True:
                take(await self.hear())
        except LinkClosedError as error:
            self._why = self._why or str(error)
        except ProtocolError as error:
            self._why, self.loss = str(error), LossReason.PROTOCOL
        return self._why

    async def _write(self) -> None:
        """The one writer of the connection; when it ends, so does the connection."""
        try:
            while self._outbox or not self._finishing:
                await self._wake.wait()
                await self._keep_distance()
                self._wake.clear()
                self._gathered = 0
                if self._reminder is not None:
                    self._reminder.cancel()
                    self._reminder = None
                await self._write_outbox()
            self._why = self._why or "closed by us"
        except LinkClosedError as error:
            self._why = self._why or str(error)

    async def _keep_distance(self) -> None:
        """Lets company gather for an envelope that would follow the last one closely."""
        loop = asyncio.get_running_loop()
        wait_s = self._next_write_at - loop.time()
        if wait_s > 0 and not self._finishing:
            await asyncio.sleep(wait_s)
        self._next_write_at = loop.time() + _DISTANCE_S

    def _cut(self, why: str, loss: LossReason = LossReason.CONNECTION_LOST) -> None:
        if not self._why:
            self._why, self.loss = why, loss
        self.link.close()

    async def _write_outbox(self) -> None:
        """What is there now. What comes meanwhile has its own hurry, or company to wait for."""
        left = len(self._outbox)
        while left:
            batch = self._next_batch(min(left, _PER_ENVELOPE))
            left -= len(batch)
            try:
                async with asyncio.timeout(STALL_S):
                    await self.link.send(self._stamp(batch))
            except TimeoutError:
                self._cut(DOES_NOT_READ, LossReason.NOT_READING)
                raise LinkClosedError(DOES_NOT_READ) from None

    def _next_batch(self, limit: int) -> list[Message]:
        batch: list[Message] = []
        size_bytes = 0
        while len(batch) < limit:
            more_bytes = _payload_bytes(self._outbox[0])
            if batch and size_bytes + more_bytes > _PER_ENVELOPE_BYTES:
                break
            batch.append(self._outbox.popleft())
            size_bytes += more_bytes
        self._outbox_bytes -= size_bytes
        return batch

    def _stamp(self, messages: list[Message]) -> Envelope:
        envelope = Envelope(self.session_id, self._sent, tuple(messages))
        self._sent += 1
        return envelope


def _payload_bytes(message: Message) -> int:
    """What a message takes beyond a few dozen bytes."""
    match message:
        case AssignWork(spec) | HoldThing(_, _, spec):
            return len(spec.payload)
        case HoldingsReported(report):
            return _HOLDING_BYTES * len(report.holdings)
        case WorkFailed(_, error):
            return len(error.message)
        case _:
            return 0
