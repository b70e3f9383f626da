"""What either machine thinks of a peer that does what it may not."""


class PeerError(Exception):
    """A peer said something that is not legal now; the message says what. Its session is broken off for it."""
