"""Why a control port could not be dialled. gRPC says only that it failed, so we find out ourselves, once for each
failure.

It goes the way that gRPC went: find the name, connect, shake hands, and say the first words of HTTP/2. The first step
that fails is the reason. It sends what any client sends first, and shows no token.
"""

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from typing import Final

from quarterdeck.control.discovery import split_address

LOOK_S: Final = 3.0
"""How long the whole look may take."""

_FIRST_WORDS: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The preface of a client of HTTP/2, and settings that change nothing."""
_FIRST_WORD_S: Final = 0.5
_FRAME_HEAD: Final = 9
_SETTINGS: Final = 4
_TLS_ALERT: Final = 0x15
_WRONG_NAME: Final = (62, 64)
"""Codes of OpenSSL's X509_verify_cert: another host, another IP address."""
_NO_WAY: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN)


async def why_not_connected(address: str, context: ssl.SSLContext | None) -> str:
    """What is in the way of a control stream to the address, and what to do about it; `context` is what we shake hands
    with, None without TLS."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(LOOK_S):
            return await _look(host, port, context)
    except TimeoutError:
        return "it does not answer; check host and port, and whether a firewall is between"


async def _look(host: str, port: int, context: ssl.SSLContext | None) -> str:
    try:
        await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:  # the latter of a name with a part that is empty or too long
        said = (error.strerror if isinstance(error, socket.gaierror) else None) or str(error)
        return f"the name {host} was not found ({said}); check its spelling, and how this machine looks names up"
    try:
        if context is None:
            return await _look_in_clear(host, port)
        return await _look_with_tls(host, port, context)
    except ConnectionRefusedError:
        return "the connection was refused: nothing listens there; start what should, and check host and port"
    except OSError as error:
        if error.errno in _NO_WAY:
            return f"there is no way to it ({error.strerror}); check the address and the network of this machine"
        return f"the connection broke ({error.strerror or error}); see whether something else listens there"


async def _look_in_clear(host: str, port: int) -> str:
    answer = await _answer_to(host, port, None)
    if _is_http_2(answer):
        return "it was reached at a second look; it is tried again"
    if answer.startswith(b"HTTP/1"):
        return "a server of HTTP/1 answers there; name the control port, which is 7071 unless it was set otherwise"
    if answer[:1] == bytes((_TLS_ALERT,)) or await _speaks_tls(host, port):
        return (
            "it speaks TLS, and this process does not; give this process the crew's files too: tls_certificate, "
            "tls_key and tls_authority"
        )
    return "it is not a control port: something else listens there; check host and port"


async def _look_with_tls(host: str, port: int, context: ssl.SSLContext) -> str:
    try:
        answer = await _answer_to(host, port, context)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _WRONG_NAME:
            return (
                f"its certificate is not one for {host} ({error.verify_message}); dial it by a name that the "
                "certificate has, or have one made with this name"
            )
        return (
            f"its certificate is not trusted ({error.verify_message}); use certificates of one authority on both "
            "sides, and name it as tls_authority"
        )
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError) as error:
        if isinstance(error, ConnectionRefusedError):
            raise
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            return _not_accepted((error.reason or "").lower().replace("_", " "))
        if await _speaks_http_in_clear(host, port):
            return (
                "it does not speak TLS, and this process does; give it the crew's files too (tls_certificate, tls_key, "
                "tls_authority), or start this process without them"
            )
        return "it does not speak TLS: something else listens there; check host and port"
    if not answer:
        return _not_accepted("it hung up after the handshake")
    if _is_http_2(answer):
        return "it was reached at a second look; it is tried again"
    return "it is not a control port, though it speaks TLS; check host and port (the control port is 7071 unless set)"


def _not_accepted(said: str) -> str:
    return (
        f"it does not accept the certificate of this process ({said}); use certificates of one authority on both "
        "sides, and name it as tls_authority"
    )


async def _answer_to(host: str, port: int, context: ssl.SSLContext | None) -> bytes:
    """The first bytes with which it answers a client of HTTP/2; empty when it hangs up."""
    reader, writer = await _open(host, port, context)
    try:
        if context is not None:
            # Over TLS a server that does not accept us says so now; to write to it would hide why. One of gRPC has the
            # first word anyway.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_WORD_S):
                    return await reader.read(_FRAME_HEAD)
        writer.write(_FIRST_WORDS)
        return await reader.read(_FRAME_HEAD)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def _open(
    host: str, port: int, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first of its addresses that can be connected to; the last error when none can. asyncio itself would make
    one error without a number of several."""
    name = host if context is not None else None
    places = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    last: OSError = OSError("it has no address")
    for place in places:
        try:
            return await asyncio.open_connection(str(place[4][0]), port, ssl=context, server_hostname=name)
        except ssl.SSLError:
            raise
        except OSError as error:
            last = error
    raise last


async def _speaks_tls(host: str, port: int) -> bool:
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE  # nothing is said to it: whoever shakes hands speaks TLS
    anybody.set_alpn_protocols(["h2"])
    try:
        _, writer = await _open(host, port, anybody)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    writer.transport.abort()
    return True


async def _speaks_http_in_clear(host: str, port: int) -> bool:
    try:
        answer = await _answer_to(host, port, None)
    except OSError:
        return False
    return _is_http_2(answer) or answer.startswith(b"HTTP/1")


def _is_http_2(answer: bytes) -> bool:
    return len(answer) == _FRAME_HEAD and answer[3] == _SETTINGS
