"""Hosts, addresses and URLs as they stand in settings: read, and brought into one form."""

import re
from typing import Final
from urllib.parse import urlsplit

_HIGHEST_PORT: Final = 65535
_SERVER: Final = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?(/[!\"$->@-~]*)?"  # no query, no fragment
)
"""No more than a fetcher believes (`http/client.py`): a worker that nobody fetches from does not start."""


def parse_host(value: object) -> str:
    """A name or an address without a port; raises `ValueError` for anything else.

    >>> parse_host("[::1]")
    '::1'
    """
    text = _text(value)
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    looks_like_v6 = bare.count(":") > 1
    if not bare or "/" in bare or any(map(str.isspace, bare)) or (":" in bare and not looks_like_v6):
        raise ValueError("not a host")
    return bare


def parse_address(value: object) -> str:
    """Host and port, with an IPv6 address in brackets; raises `ValueError` for anything else.

    >>> parse_address("worker-1:7071"), parse_address("[::1]:07071")
    ('worker-1:7071', '[::1]:7071')
    """
    host, colon, port = _text(value).rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise ValueError("not HOST:PORT")
    if ":" in host and not host.startswith("["):
        raise ValueError("an IPv6 address stands in brackets")
    bare = parse_host(host)
    return f"[{bare}]:{int(port)}" if ":" in bare else f"{bare}:{int(port)}"


def parse_url(value: object) -> str:
    """An http or https URL of a server as others will ask it, without a slash at its end; raises `ValueError` for
    anything else.

    >>> parse_url("HTTPS://worker-1.example:7072/"), parse_url("http://b\u00fccher.example")
    ('https://worker-1.example:7072', 'http://xn--bcher-kva.example')
    """
    parts = urlsplit(_text(value))
    if parts.port == 0:  # reading it raises ValueError when it is none
        raise ValueError("port 0 is no port to connect to")
    authority = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    text = parts._replace(netloc=authority).geturl().rstrip("/")
    if not _SERVER.fullmatch(text):
        raise ValueError("not the URL of a server")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not text")  # noqa: TRY004 - pydantic gathers ValueError and lets TypeError through
    return value.strip()
