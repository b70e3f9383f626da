"""What this process shows to the processes it calls: the crew's token, and only where nobody else can read or receive
it.

The rules, in this order:

1. On loopback, a token that somebody gave this process is shown. Without one, each process of this user is shown the
   token that it announced, which is found as tools find it. If the process that announced an address is gone, the
   address belongs to a stranger and is not called. After we have called such a process, that stays so even if its
   announcement is gone too.
2. Over TLS, a given token goes to whoever has a certificate of the crew's authority.
3. Anywhere else it would travel without encryption: the call is refused, unless `insecure` allows it.
"""

from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.exposure import is_loopback
from quarterdeck.security.local_processes import LocalProcess, LocalProcesses
from quarterdeck.security.tokens import SharedToken


class NotShownError(QuarterdeckError):
    """The token was not sent, and so nothing was asked."""

    def __init__(self, address: str, why: str, next_step: str) -> None:
        super().__init__(ErrorCode.PERMISSION_DENIED, f"{address} was not called", why, next_step)
        self.args = (address, why, next_step)  # from which copy and pickle make it anew


class Credentials:
    def __init__(
        self,
        token: SharedToken | None,
        *,
        is_own: bool = False,
        insecure: bool = False,
        processes: LocalProcesses | None = None,
    ) -> None:
        """`is_own` says that this process made the token itself: nobody else has to know it."""
        self._token: Final = token
        self._is_own: Final = is_own
        self._insecure: Final = insecure
        self._processes: Final = processes or LocalProcesses()
        self._shown: Final[dict[tuple[str, int], SharedToken]] = {}
        self._called: Final[dict[tuple[str, int], LocalProcess]] = {}
        """Who announced an address when it was last called."""

    def authorization_for(self, host: str, port: int, *, encrypted: bool) -> str | None:
        """The value of the `Authorization` header for an address; None when there is nothing to show. Raises
        `NotShownError` when it may not be called like this."""
        if is_loopback(host):
            return self._on_loopback(host, port)
        if self._token is None or self._is_own:
            return None
        if not encrypted and not self._insecure:
            raise NotShownError(
                f"{host}:{port}",
                "the crew's token would travel in clear: the address is on another machine and has no TLS",
                "use TLS (tls_certificate, tls_key, tls_authority; https:// in addresses), or allow it with --insecure "
                "if nobody on the way can read it",
            )
        return self._token.authorization

    def is_neighbours(self, authorization: str | None) -> bool:
        """Whether it shows the token of a process that this process has called. A process that was shown its own token
        may show it back: a coordinator that a worker has joined fetches the worker's results."""
        return any(token.matches(authorization) for token in self._shown.values())

    def _on_loopback(self, host: str, port: int) -> str | None:
        found, before = self._processes.find(host, port), self._called.get((host, port))
        # A worker calls its coordinator again and again. A program that waits for the port gets no token either.
        has_left = found is None and before is not None and self._processes.can_be_found
        found = found or before
        if has_left or (found is not None and not found.is_alive):
            raise NotShownError(
                f"{host}:{port}",
                "the process that announced this address is gone, and it is not known what listens there now",
                "start it again; if something else of yours has the port, give each a port of its own",
            )
        if found is not None:
            self._called[host, port] = found
        if self._token is not None and not self._is_own:
            return self._token.authorization
        theirs = None if found is None else found.token()
        if theirs is None:
            return None
        self._shown[host, port] = theirs
        return theirs.authorization
