"""The open sessions of one side: which session a message goes to, and when nobody is left to talk to."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from quarterdeck.control.conversation import Conversation
from quarterdeck.control.link import Message
from quarterdeck.core.ids import SessionId


class Sessions:
    def __init__(self) -> None:
        self._open: dict[SessionId, Conversation] = {}
        self._none = asyncio.Event()
        self._none.set()

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._open

    @contextmanager
    def held_open(self, session_id: SessionId, conversation: Conversation) -> Generator[None]:
        """A session exists for as long as this lasts."""
        self._open[session_id] = conversation
        self._none.clear()
        try:
            yield
        finally:
            del self._open[session_id]
            if not self._open:
                self._none.set()

    def send(self, session_id: SessionId, message: Message, company: int = 0) -> None:
        """Says something on a session; on one that has just ended it is lost, as it would be on the way."""
        conversation = self._open.get(session_id)
        if conversation is not None:
            conversation.send(message, company)

    def finish(self, session_id: SessionId) -> None:
        """Ends a session once what was said on it is written; again is fine."""
        conversation = self._open.get(session_id)
        if conversation is not None:
            conversation.finish()

    def cut(self) -> None:
        """Ends all of them now."""
        for conversation in self._open.values():
            conversation.link.close()

    async def wait_none(self) -> None:
        await self._none.wait()
