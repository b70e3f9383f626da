"""The front pages of our processes."""

import json
import shlex
from typing import Final

from quarterdeck.web.front import Ask, Front, Panel


def _curl(path: str, body: dict[str, object] | None = None) -> str:
    """With the token that `quarterdeck token` prints."""
    command = f'curl -H "Authorization: Bearer $(quarterdeck token --url {{url}})" {{url}}{path}'
    if body is None:
        return command
    return f"{command} \\\n  -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"


_WORDS: Final = "level=error | count() by host"
_SQL: Final = "select count(*) n from files"
_SEARCH: Final = (
    Ask("Search logs", f"quarterdeck search '{_WORDS}' logs/ --url {{url}}"),
    Ask("The same with curl", _curl("/v1/search", {"query": _WORDS, "sources": ["/data/logs"]})),
)

COORDINATOR: Final = Front(
    "coordinator",
    "It plans queries, gives their parts to its crew of workers, and puts the answers together.",
    (
        Ask("Grafana: add a data source of the type Prometheus, with this URL", "{url}"),
        Ask("PromQL", "quarterdeck query 'sum by (job) (rate(http_requests_total[5m]))' --last 6h --url {url}"),
        Ask("The same with curl", "curl -G {url}/api/v1/query --data-urlencode 'query=up'"),
        Ask("SQL over Parquet files", f"quarterdeck scan '{_SQL}' 'data/*.parquet' --url {{url}}"),
        Ask("The same with curl", _curl("/v1/scan", {"sql": _SQL, "sources": ["/data/*.parquet"], "format": "csv"})),
        *_SEARCH,
        Ask("The crew and its queries, on a terminal", "quarterdeck status --url {url}"),
    ),
    (Panel("crew", "v1/crew", "Crew"), Panel("queries", "v1/queries?limit=25", "Queries")),
)
RECRUITER: Final = Front(
    "recruiter",
    "It keeps a pool of idle workers, gives them to whoever has a long search, and searches logs with them.",
    (*_SEARCH, Ask("Its free workers", _curl("/recruiter/listfree"))),
    (Panel("figures", "recruiter/stats", "Pool"), Panel("queries", "v1/queries?limit=25", "Searches")),
)
WORKER: Final = Front(
    "worker",
    "It executes what coordinators and searches give it, and keeps files in its cache. Queries are for a coordinator.",
    (Ask("Its figures", _curl("/monitor/scaling")),),
    (Panel("figures", "monitor/scaling", "Load"),),
)
