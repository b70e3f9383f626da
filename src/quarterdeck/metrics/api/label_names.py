"""Names of labels in a path: any text is one, and one that does not fit into a path is written in an escaped form."""

import re
from typing import Final

from quarterdeck.metrics.api.errors import BadRequest
from quarterdeck.metrics.promql.syntax.quoting import quote

_ESCAPED: Final = "U__"
_ESCAPE: Final = re.compile(r"_(?:_|([0-9a-fA-F]{1,6})_)")


def parse_label_name(text: str) -> str:
    """The name that a client means; `U__` begins the escaped form, in which `_2e_` is a dot and `__` an underscore.

    >>> parse_label_name("job"), parse_label_name("U__http_2e_status__code"), parse_label_name("U__a_b")
    ('job', 'http.status_code', 'U__a_b')
    """
    name = _unescaped(text.removeprefix(_ESCAPED)) if text.startswith(_ESCAPED) else text
    if name is None:  # as Prometheus takes a broken escape: as it stands
        name = text
    if not name or any("\ud800" <= char <= "\udfff" for char in name):
        raise BadRequest(f"invalid label name: {quote(text)}", "name the label as it is stored")
    return name


def _unescaped(text: str) -> str | None:
    parts: list[str] = []
    position = 0
    while (start := text.find("_", position)) >= 0:
        escape = _ESCAPE.match(text, start)
        if escape is None:
            return None
        code = int(escape[1], 16) if escape[1] else ord("_")
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            return None
        parts += (text[position:start], chr(code))
        position = escape.end()
    return "".join((*parts, text[position:]))
