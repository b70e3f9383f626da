"""Others that talk on the sessions of a crew beside the machine for work."""

from typing import Generic, Protocol, TypeVar

from quarterdeck.control.link import Message
from quarterdeck.core.ids import SessionId

AboutT_contra = TypeVar("AboutT_contra", contravariant=True)


class SessionGuest(Protocol, Generic[AboutT_contra]):
    """All of it is called on the event loop."""

    def opened(self, session_id: SessionId, about: AboutT_contra) -> None:
        """A session has begun; `about` is what the peer said of itself."""
        ...

    def closed(self, session_id: SessionId) -> None:
        """It is over: what is sent on it now goes nowhere."""
        ...

    def take(self, session_id: SessionId, message: Message) -> bool:
        """A message that is none for the machine for work; whether it is one for this guest."""
        ...
