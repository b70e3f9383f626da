"""The nouns."""

from typing import Final

from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.crew.query_log import QueryKind

TALLY: Final = WorkKind("tally")
"""The text whose words a worker counts."""
TALLY_QUERY: Final = QueryKind("tally")
"""What a query is called for people."""


def count_words(text: str, least_letters: int) -> int:
    """
    >>> count_words("a quick brown fox", 2)
    3
    """
    return sum(len(word) >= least_letters for word in text.split())
