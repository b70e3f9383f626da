"""The three files that make a process part of a crew over TLS: its certificate, the key, and the authority.

Everybody in a crew has a certificate of one authority and shows it to the processes it dials. All of them trust this
authority instead of the system's store. The files are read and tried out once, at the start: a process that could not
talk to anybody does not start.

It must not know gRPC, which gets the files as bytes.
"""

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.rehearsal import Validity, rehearse, without_time

_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_PURPOSE: Final = 26
"""Codes of OpenSSL's X509_verify_cert."""


class TlsFiles:
    """Loaded and checked files. `certificate_pem`, `key_pem` and `authority_pem` are what gRPC's credentials take."""

    def __init__(
        self, certificate: Path, key: Path, authority: Path, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.certificate: Final = certificate
        self.key: Final = key
        self.authority: Final = authority
        self.certificate_pem: Final = _read(certificate, "certificate", b"-----BEGIN CERTIFICATE-----")
        self.key_pem: Final = _read(key, "key", b"PRIVATE KEY-----")
        self.authority_pem: Final = _read(authority, "authority", b"-----BEGIN CERTIFICATE-----")
        self._server: Final = self._context(ssl.PROTOCOL_TLS_SERVER)
        self._server.verify_mode = ssl.CERT_NONE  # browsers and scrapers have no certificate; they have the token
        self._server.set_alpn_protocols(["http/1.1"])
        self._client: Final = self._context(ssl.PROTOCOL_TLS_CLIENT)
        self._control: Final = self._context(ssl.PROTOCOL_TLS_CLIENT)
        self._control.set_alpn_protocols(["h2"])
        self.expires_at_s: Final = self._checked(wall_clock).not_after_s
        """When the certificate ends, in seconds since 1970."""

    def server_context(self) -> ssl.SSLContext:
        """For an HTTP server. It shows the certificate and asks for none."""
        return self._server

    def client_context(self) -> ssl.SSLContext:
        """For dialling another process of the crew: trusts the authority alone, and shows the certificate."""
        return self._client

    def control_context(self) -> ssl.SSLContext:
        """For a look at a control port that could not be dialled: it trusts and shows what gRPC does."""
        return self._control

    def __repr__(self) -> str:
        return f"TlsFiles(certificate={self.certificate}, key={self.key}, authority={self.authority})"

    def _context(self, protocol: int) -> ssl.SSLContext:
        """A context that shows the certificate and verifies the other side's."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._trust_authority(context)
        self._show_certificate(context)
        return context

    def _trust_authority(self, context: ssl.SSLContext) -> None:
        try:
            context.load_verify_locations(cafile=self.authority)
        except ssl.SSLError as error:
            raise _refusal(
                f"the authority {self.authority} cannot be used",
                f"it is not a certificate in PEM form ({error.reason})",
                "name the file with the certificate of the authority that signed those of the crew",
            ) from error

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        try:
            # A key with a passphrase was refused before; without this argument OpenSSL would ask the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise _refusal(
                    f"the key {self.key} does not fit the certificate {self.certificate}",
                    "they are not of one pair",
                    "name the key that the certificate was requested with; in a chain, the own certificate comes first",
                ) from error
            raise _refusal(
                f"the certificate {self.certificate} or its key {self.key} cannot be used",
                f"OpenSSL says {error.reason or error}",
                "name a certificate and a key in PEM form",
            ) from error

    def _checked(self, wall_clock: Callable[[], float]) -> Validity:
        """How long the certificate is valid, once both roles it plays were tried."""
        server, client = self._rehearsal_contexts()
        try:
            # Dates come later, against the given clock, so that they can be told.
            validity = rehearse(without_time(server), without_time(client))
        except ssl.SSLCertVerificationError as error:
            raise self._unverifiable(error) from error
        now_s = wall_clock()
        if not validity.not_before_s <= now_s < validity.not_after_s:
            raise self._out_of_date(validity, now_s)
        try:
            rehearse(*self._rehearsal_contexts())
        except ssl.SSLCertVerificationError as error:
            raise self._unverifiable(error) from error
        return validity

    def _rehearsal_contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server, client = self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)
        server.verify_mode = ssl.CERT_REQUIRED
        client.check_hostname = False  # which names a peer is dialled by is not known here
        return server, client

    def _unverifiable(self, error: ssl.SSLCertVerificationError) -> QuarterdeckError:
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            return _refusal(
                f"the authority {self.authority} cannot be used for the certificate {self.certificate}",
                f"OpenSSL says of a certificate between the two, or of the authority itself: {error.verify_message}",
                "renew the authority, sign the crew's certificates with it, and start again",
            )
        if error.verify_code == _WRONG_PURPOSE:
            return _refusal(
                f"the certificate {self.certificate} cannot be used",
                "its extended key usage does not allow it for servers and for clients, and a process here is both",
                "have it signed with serverAuth and clientAuth, or without extended key usage",
            )
        return _refusal(
            f"the certificate {self.certificate} was not signed by the authority {self.authority}",
            f"OpenSSL says: {error.verify_message}",
            "name the authority that signed it; certificates between the two belong into the certificate's file",
        )

    def _out_of_date(self, validity: Validity, now_s: float) -> QuarterdeckError:
        expired = now_s >= validity.not_after_s
        return _refusal(
            f"the certificate {self.certificate} {'has expired' if expired else 'is not valid yet'}",
            f"it is valid from {_date(validity.not_before_s)} to {_date(validity.not_after_s)}, now is {_date(now_s)}",
            "have it renewed" if expired else "wait until then, or set this machine's clock right",
        )


def _read(path: Path, role: str, marker: bytes) -> bytes:
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise _refusal(
            f"the TLS {role} {path} cannot be read",
            error.strerror or str(error),
            f"name a file that is there and that this process may read, as tls_{role}",
        ) from error
    if marker not in pem:
        raise _refusal(
            f"the TLS {role} {path} cannot be used",
            f"there is no {'private key' if role == 'key' else 'certificate'} in PEM form in it",
            f"name a PEM file as tls_{role}; `openssl` turns other forms into it",
        )
    if role == "key" and b"ENCRYPTED" in pem:
        raise _refusal(
            f"the TLS key {path} cannot be used",
            "it has a passphrase, and there is nobody to ask for it",
            "write it without one (`openssl pkey -in FILE -out NEW`) and let only this process read it",
        )
    return pem


def _refusal(what: str, why: str, next_step: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, what, why, next_step)


def _date(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_s))
