"""gRPC's credentials from a crew's TLS files. Both sides show a certificate of the crew's authority."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import grpc

from quarterdeck.security.tls import TlsFiles

_CALL_WITHIN_S: Final = 5.0
"""Who has shaken hands makes its call at once. After this, a connection without one counts as failed."""
_RECENT: Final = 10_000


class Handshakes:
    """How many TLS handshakes failed on a control port. gRPC tells of their beginning and of nothing more; but whoever
    belongs to the crew makes one call on each connection, so those that bring none in time are taken for failed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[float] = deque()
        self._begun = 0
        self._calls = 0
        self._failed = 0

    def begun(self) -> None:
        """From gRPC's threads."""
        with self._lock:
            self._recent.append(self._clock())
            self._settle()

    def called(self) -> None:
        with self._lock:
            self._calls += 1

    @property
    def failed(self) -> int:
        """It never falls. Not exact: somebody who makes many calls hides others' failures, and one who hangs up before
        its call, or comes while this process stands still, counts as failed."""
        with self._lock:
            self._settle()
            self._failed = max(self._failed, self._begun - self._calls)
            return self._failed

    def _settle(self) -> None:
        while self._recent and (self._recent[0] <= self._clock() - _CALL_WITHIN_S or len(self._recent) > _RECENT):
            self._recent.popleft()
            self._begun += 1


def server_credentials(tls: TlsFiles | None, handshakes: Handshakes) -> grpc.ServerCredentials | None:
    if tls is None:
        return None

    def fetch() -> None:
        """gRPC asks for another certificate with each handshake: there is none."""
        handshakes.begun()

    certificates = grpc.ssl_server_certificate_configuration(
        [(tls.key_pem, tls.certificate_pem)], root_certificates=tls.authority_pem
    )
    return grpc.dynamic_ssl_server_credentials(
        certificates,
        fetch,  # pyright: ignore[reportArgumentType] - None means that the certificate stays; the stubs do not know
        require_client_authentication=True,
    )


def channel_credentials(tls: TlsFiles | None) -> grpc.ChannelCredentials | None:
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=tls.authority_pem, private_key=tls.key_pem, certificate_chain=tls.certificate_pem
    )
