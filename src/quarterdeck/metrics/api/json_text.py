"""JSON of texts and labels, as bytes.

Label values may hold bytes that are no UTF-8, each as a lone surrogate (`promql/syntax/quoting.py`). JSON has no place
for them, and Prometheus sends a replacement character for each: so do we.
"""

import json
import re
from typing import Final

from quarterdeck.metrics.promql.labels import Labels

_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def json_bytes(value: object) -> bytes:
    r"""Any value of which JSON can be made; not-a-number and infinity are none of JSON's, and a ValueError.

    >>> json_bytes({"a": ["\udcff", 1.5]})
    b'{"a":["\xef\xbf\xbd",1.5]}'
    """
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _NO_TEXT.sub("\ufffd", text).encode()


class LabelTexts(dict[tuple[str, str], bytes]):
    """Labels as JSON for the many series of one answer, which share most of their names and values.

    >>> LabelTexts().object((("a", "1"), ("b", "2")))
    b'{"a":"1","b":"2"}'
    """

    def __missing__(self, pair: tuple[str, str]) -> bytes:
        name, value = pair
        text = self[pair] = json_bytes(name) + b":" + json_bytes(value)
        return text

    def object(self, labels: Labels) -> bytes:
        """All labels of a series."""
        return b"{" + b",".join([self[pair] for pair in labels]) + b"}"
