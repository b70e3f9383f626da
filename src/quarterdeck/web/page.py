"""What all pages share: the frame around their content, one style, and the policy that a browser gets.

A page is complete in itself: it contains its style and script, and loads nothing from anywhere. A browser that follows
the policy runs and draws nothing else, even if a stranger's text gets into the page. Every text goes through `escape`.
"""

import base64
import hashlib
import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Final


def _static(name: str) -> str:
    return (files("quarterdeck.web") / "static" / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE: Final = _static("style.css")
FRONT_SCRIPT: Final = _static("front.js")


def escape(text: object) -> str:
    """Fit to stand in a page, between tags and in quoted attributes.

    >>> escape('<b a="1">&')
    '&lt;b a=&quot;1&quot;&gt;&amp;'
    """
    return html.escape(str(text), quote=True)


def page_headers(script: str = "") -> Mapping[str, str]:
    """For a page with this script."""
    policy = (
        "default-src 'none'",
        f"style-src {_hash_of(_STYLE)}",
        f"script-src {_hash_of(script)}" if script else "script-src 'none'",
        "connect-src 'self'" if script else "connect-src 'none'",
        "img-src data:",  # the empty picture in its head, so that a browser asks for none
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def page(title: str, body: str, script: str = "") -> str:
    """A page of HTML. `body` and `script` are ours: what is a stranger's in them is escaped already."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )
