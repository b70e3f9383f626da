"""How to ask a log search, for the front pages."""

from typing import Final

from quarterdeck.web.front import Ask, curl

_WORDS: Final = "level=error | count() by host"
ASKS: Final = (
    Ask("Search logs", f"quarterdeck search '{_WORDS}' logs/ --url {{url}}"),
    Ask("The same with curl", curl("/v1/search", {"query": _WORDS, "sources": ["/data/logs"]})),
)
