"""Who may talk to a process, and what it shows to others: its TLS files and the crew's token, read once at the start
and applied at every door.

A process that was given no token makes one of its own, in its data folder, as long as nobody but this machine can reach
it: being on the same machine is no reason to be let in. Whoever can read that file is the same user.
"""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.client import Origin, UnreachableError, split_address
from quarterdeck.http.gate import GateRules, named
from quarterdeck.security.credentials import Credentials, NotShownError
from quarterdeck.security.exposure import Exposure, check_exposure, is_loopback
from quarterdeck.security.local_processes import LocalProcesses
from quarterdeck.security.tls import TlsFiles
from quarterdeck.security.tokens import TOKEN_NAME, TOKEN_VARIABLE, SharedToken
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_GIVEN_UP: Final = (
    "anybody who can reach this address can run queries, read what its sources allow, join as a worker and so change "
    "answers, drain workers, and read along"
)


@dataclass(frozen=True, slots=True)
class Guard:
    """Made by `load`. Without a token nobody is asked for one, which takes `insecure`."""

    tls: TlsFiles | None
    token: SharedToken | None
    insecure: bool
    token_file: Path | None = None
    """Where those who may read it find the token; None when it came from the environment."""
    is_own_token: bool = False
    """Whether this process made it."""
    reading_needs_token: bool = True
    """On loopback; off it the token is needed for everything."""
    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    processes: LocalProcesses = field(default_factory=LocalProcesses)
    credentials: Credentials = field(init=False)
    """What is shown to those whom this process calls."""

    def __post_init__(self) -> None:
        credentials = Credentials(
            self.token, is_own=self.is_own_token, insecure=self.insecure, processes=self.processes
        )
        object.__setattr__(self, "credentials", credentials)

    @classmethod
    def load(
        cls,
        *,
        tls_certificate: Path | None,
        tls_key: Path | None,
        tls_authority: Path | None,
        token_file: Path | None,
        insecure: bool,
        folder: Path,
        hosts: Iterable[str],
        reading_needs_token: bool | None = None,
        names: Iterable[str] = (),
        origins: Iterable[str] = (),
        processes: LocalProcesses | None = None,
    ) -> "Guard":
        """`folder` is the process's own, `hosts` are where it will listen. Raises for files that cannot be used, and
        for some of the TLS files without the others."""
        given = (tls_certificate, tls_key, tls_authority)
        if tls_certificate is not None and tls_key is not None and tls_authority is not None:
            tls = TlsFiles(tls_certificate, tls_key, tls_authority)
        elif any(path is not None for path in given):
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the process was not started",
                "it was given some of the TLS files and not the others",
                "name all of tls_certificate, tls_key and tls_authority, or none of them",
            )
        else:
            tls = None
        token = (
            SharedToken.from_environment(TOKEN_VARIABLE) if token_file is None else SharedToken.from_file(token_file)
        )
        is_own = token is None and all(map(is_loopback, hosts))
        if is_own:
            token_file = folder / TOKEN_NAME
            token = SharedToken.kept_in(token_file)
        return cls(
            tls,
            token,
            insecure,
            token_file,
            is_own,
            not is_own if reading_needs_token is None else reading_needs_token,
            named(names),
            frozenset(origin.rstrip("/").lower() for origin in origins),
            processes or LocalProcesses(),
        )

    def check(self, what: str, host: str) -> None:
        """Raises when something may not listen there; says so when it listens without protection."""
        has_token = self.token is not None and not self.is_own_token
        exposure = check_exposure(what, host, has_tls=self.tls is not None, has_token=has_token, insecure=self.insecure)
        if exposure is Exposure.INSECURE:
            gives_up = _GIVEN_UP if self.token is None else "the token and all data travel in clear"
            _log.warning("this address is not protected (insecure)", what=what, host=host, gives_up=gives_up)

    def check_dialling(self, addresses: Iterable[tuple[str, int]], *, encrypted: bool | None = None) -> None:
        """Raises for an address to which the token would travel in clear, so that a process does not start that would
        be turned away for ever, or tell its token to everybody."""
        for host, port in addresses:
            if not is_loopback(host):
                self.credentials.authorization_for(
                    host, port, encrypted=self.tls is not None if encrypted is None else encrypted
                )

    def check_dialling_urls(self, urls: Iterable[str]) -> None:
        """The same for addresses of HTTP servers."""
        for url in urls:
            origin, _ = split_address(url)
            self.check_dialling([(origin.host, origin.port)], encrypted=origin.scheme == "https")

    def announce(self, addresses: Iterable[tuple[str, int]], *, again: bool = False) -> None:
        """Lets tools of this user find the token by these addresses. When that is done `again`, nothing is said."""
        if self.token_file is None or self.processes.announce(addresses, self.token_file):
            return
        if not again:
            _log.warning(
                "tools do not find the token of this process by themselves: name it with --token-file",
                token_file=str(self.token_file),
                why=self.processes.trouble() or "no file could be written",
            )

    def withdraw(self, addresses: Iterable[tuple[str, int]]) -> None:
        self.processes.withdraw(addresses)

    def authorize(self, origin: Origin) -> str | None:
        """What an HTTP client shows to whom it connects to."""
        try:
            return self.credentials.authorization_for(origin.host, origin.port, encrypted=origin.scheme == "https")
        except NotShownError as error:
            raise UnreachableError(error.message) from error

    @property
    def admits(self) -> Callable[[str | None], bool] | None:
        """Whether an `Authorization` header is good; None when none is needed."""
        if self.token is None:
            return None
        if not self.is_own_token:
            return self.token.matches
        own, is_neighbours = self.token.matches, self.credentials.is_neighbours
        return lambda authorization: own(authorization) or is_neighbours(authorization)

    @property
    def server_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.server_context()

    @property
    def client_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.client_context()

    def rules(self, host: str, reading_prefixes: tuple[str, ...] = ()) -> GateRules:
        """For what listens on an address."""
        return GateRules(
            self.admits,
            is_loopback(host),
            reading_needs_token=self.reading_needs_token,
            names=self.names,
            origins=self.origins,
            reading_prefixes=reading_prefixes,
        )
