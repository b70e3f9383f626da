"""Who may talk to a process: its TLS files and the crew's token, read once at the start, and applied at every door."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.authentication import Authentication
from quarterdeck.security.exposure import Exposure, check_exposure
from quarterdeck.security.tls import TlsFiles
from quarterdeck.security.tokens import SharedToken
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_TOKEN_VARIABLE: Final = "QUARTERDECK_TOKEN"  # noqa: S105 - where it is, not what it is


@dataclass(frozen=True, slots=True)
class Guard:
    """None of the two on loopback; both, or nobody's trust, off it."""

    tls: TlsFiles | None
    token: SharedToken | None
    insecure: bool

    @classmethod
    def load(
        cls,
        *,
        tls_certificate: Path | None,
        tls_key: Path | None,
        tls_authority: Path | None,
        token_file: Path | None,
        insecure: bool,
    ) -> "Guard":
        """Raises for files that cannot be used, and for some of the TLS files without the others."""
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
            SharedToken.from_environment(_TOKEN_VARIABLE) if token_file is None else SharedToken.from_file(token_file)
        )
        return cls(tls, token, insecure)

    def check(self, what: str, host: str) -> None:
        """Raises when something may not listen there; says so when it listens without protection."""
        exposure = check_exposure(
            what, host, has_tls=self.tls is not None, has_token=self.token is not None, insecure=self.insecure
        )
        if exposure is Exposure.INSECURE:
            _log.warning("anybody who can reach this address can use it", what=what, host=host)

    @property
    def authorization(self) -> str | None:
        """What goes with every request of ours."""
        return None if self.token is None else self.token.authorization

    @property
    def bare_token(self) -> str | None:
        """The same for a client that knows how a token is sent."""
        return None if self.token is None else self.token.authorization.removeprefix("Bearer ")

    @property
    def admits(self) -> Callable[[str | None], bool] | None:
        """Whether an `Authorization` header is good; None when none is needed."""
        return None if self.token is None else self.token.matches

    @property
    def server_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.server_context()

    @property
    def client_context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.client_context()

    def protect(self, app: ASGIApp, on_rejected: Callable[[], None]) -> ASGIApp:
        """The application behind the token, where there is one."""
        return app if self.token is None else Authentication(app, self.token.matches, on_rejected)
