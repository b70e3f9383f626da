"""Labels as the text that stands in a segment: a JSON object without the metric's name, which has its own column."""

import json
from typing import cast

from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels


def label_text(labels: Labels) -> str:
    """One text for equal labels.

    >>> label_text((("__name__", "up"), ("job", "a"), ("zone", "é")))
    '{"job":"a","zone":"é"}'
    """
    pairs = {name: value for name, value in labels if name != METRIC_NAME}
    text = json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() or _is_text(text) else json.dumps(pairs, separators=(",", ":"))


def labels_of(metric: str, text: str) -> Labels:
    """The labels again; `ValueError` if the text is no JSON object of texts.

    >>> labels_of("up", '{"job":"a","Zone":"b"}')
    (('Zone', 'b'), ('__name__', 'up'), ('job', 'a'))
    """
    found: object = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"labels are a JSON object, and this is {text[:80]}")  # noqa: TRY004 - of what was read
    pairs = cast("dict[str, object]", found)
    if not all(type(value) is str for value in pairs.values()):
        raise ValueError(f"the values of labels are texts, and here one is not: {text[:80]}")
    if metric:
        pairs[METRIC_NAME] = metric
    return tuple(sorted(cast("dict[str, str]", pairs).items()))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: bytes that were no text, kept as an escape
        return False
    return True
