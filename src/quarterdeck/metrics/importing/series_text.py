r"""The text of a series: `http_requests_total{code="200",path="/"}`, or with names in quotes `{"my.metric","x.y"="1"}`.

Strict where a mistake would change a name or a value: a label stands once, a quoted text ends, and the escapes are
`\\`, `\"` and `\n`. (The specification lets other escapes through as they are; who wrote `\t` meant something else.)
Lenient where nothing can be mistaken: blanks between the labels and a comma after the last one are fine.
"""

import re
from typing import Final, NoReturn

from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_BLANKS: Final = re.compile(r"[ \t]*")
_QUOTED: Final = r'"([^"\\]*(?:\\["\\n][^"\\]*)*)"'
_ITEM: Final = re.compile(rf"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})[ \t]*(?:=[ \t]*{_QUOTED}[ \t]*)?([,}}])")
"""A label, or a metric's name in quotes, and what ends it."""
_LAST: Final = re.compile(r"[ \t]*\}")
_BARE_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_ESCAPE: Final = re.compile(r"\\(.)")


def read_series(text: str, start: int = 0, *, spaced: bool = False) -> tuple[Labels, int]:
    r"""The labels of the series that begins at `start`, and where the text goes on.

    `spaced`: blanks may stand between the metric's name and the labels.

    >>> read_series('up{job="a\\"b",empty=""} 1')
    ((('__name__', 'up'), ('job', 'a"b')), 23)
    """
    pairs: list[tuple[str, str]] = []
    position = start
    if named := _METRIC.match(text, start):
        pairs.append((METRIC_NAME, named[0]))
        position = named.end()
    brace = _skip_blanks(text, position) if spaced else position
    if text.startswith("{", brace):
        position = read_labels(text, brace, pairs, named=True)
    elif not pairs:
        raise Malformed("there is no metric's name at its start", "begin it with a metric's name, or remove it")
    return as_labels(pairs), position


def read_labels(text: str, brace: int, pairs: list[tuple[str, str]], *, named: bool) -> int:
    """Appends the labels in braces to `pairs`, and says where the text goes on; `named`: a metric may be among them."""
    position = brace + 1
    while not (end := _LAST.match(text, position)):
        item = _ITEM.match(text, position)
        if item is None:
            _explain(text, position)
        bare, quoted, value, mark = item.groups()
        if value is not None:
            pairs.append((unescape(quoted) if bare is None else bare, unescape(value)))
        elif bare is None and named:
            pairs.append((METRIC_NAME, unescape(quoted)))
        else:
            raise Malformed(f"the label `{bare or quoted}` has no value", 'write it as name="value"')
        position = item.end()
        if mark == "}":
            return position
    return end.end()


def as_labels(pairs: list[tuple[str, str]]) -> Labels:
    """Sorted, without empty values; each name once, including the metric's."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise Malformed(_twice(pairs), "leave one of the two")
    if "" in mapping:
        raise Malformed("a label has an empty name", "name the label, or remove it")
    if not mapping.get(METRIC_NAME):
        raise Malformed("it has no metric's name", "begin it with a metric's name, or remove it")
    return lb.from_mapping(mapping)


def _twice(pairs: list[tuple[str, str]]) -> str:
    names = [name for name, _ in pairs]
    name = next(name for at, name in enumerate(names) if name in names[:at])
    return "the metric has two names" if name == METRIC_NAME else f"the label `{name}` appears twice"


def unescape(text: str) -> str:
    """What stood between quotes, whose escapes are known to be right."""
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    assert blanks is not None
    return blanks.end()


def _explain(text: str, position: int) -> NoReturn:
    """Raises for the first thing that is wrong with the label at `position`."""
    position = _skip_blanks(text, position)
    if text.startswith('"', position):
        position = _end_of_string(text, position)
    elif name := _BARE_NAME.match(text, position):
        position = name.end()
    elif position == len(text):
        raise Malformed("its labels have no end", "close them with }")
    else:
        found = text[position : position + 1]
        raise Malformed(f"a label's name cannot begin with `{found}`", "put the name in double quotes, or correct it")
    position = _skip_blanks(text, position)
    if text.startswith("=", position):
        position = _skip_blanks(text, position + 1)
        if not text.startswith('"', position):
            raise Malformed("the value of a label is not in quotes", "put it in double quotes")
        position = _skip_blanks(text, _end_of_string(text, position))
    if position == len(text):
        raise Malformed("its labels have no end", "close them with }")
    raise Malformed(
        f"`{text[position]}` stands where a label should end or go on",
        'write labels as name="value" with commas between them; a name with other characters goes into quotes',
    )


def _end_of_string(text: str, position: int) -> int:
    string = _STRING.match(text, position)
    if string is None:
        raise Malformed("a text in quotes has no end", 'close it with "')
    for escape in _ESCAPE.finditer(string[0]):
        if escape[1] not in '"\\n':
            raise Malformed(
                f"`{escape[0]}` is not an escape", r"the escapes are \\, \" and \n; write \\ for a backslash itself"
            )
    return string.end()
