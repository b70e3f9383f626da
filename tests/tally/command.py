"""`quarterdeck tally`."""

import json
import sys

from quarterdeck.terminal.client import Access, Client


def run(access: Access, text: str) -> int:
    with Client(access).post("/v1/tally", {"text": text}, accept="application/json", timeout_s=60.0) as exchange:
        document = json.loads(exchange.answer().read())
    sys.stdout.write(f"{document['words']} words, {document['words_of_all']} of all texts\n")
    return 0
