"""What a scrape gets: the metrics of a registry as text, in the format that the scraper prefers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_OPEN_METRICS, _PLAIN = "application/openmetrics-text", "text/plain"
_VERSIONS = {_OPEN_METRICS: ("1",), _PLAIN: ("0", "1")}
"""The major versions of each that what we send can be taken for."""


def new_registry() -> "CollectorRegistry":
    """A registry for one process. The global one of prometheus-client is nobody's, and so anybody's."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - loaded when it is needed

    return CollectorRegistry()


def render(registry: "CollectorRegistry", accept_header: str | None) -> tuple[bytes, str]:
    """The body and its content type: OpenMetrics, which has exemplars, if the scraper asks for it, otherwise
    Prometheus' text. The server takes care of compression."""
    # Loaded when they are needed.
    from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest  # noqa: PLC0415
    from prometheus_client.openmetrics import exposition as openmetrics  # noqa: PLC0415

    # All names are plain, so that no escaping changes them; this kind does not look at every character to see that.
    escaping = openmetrics.ALLOWUTF8
    if _wants_openmetrics(accept_header or ""):
        openmetrics_latest = cast("Callable[[CollectorRegistry, str], bytes]", openmetrics.generate_latest)
        return openmetrics_latest(registry, escaping), openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(registry, escaping), CONTENT_TYPE_PLAIN_0_0_4


def form_of(accept_header: str) -> str:
    """Which of the two a scraper gets.

    >>> form_of("application/openmetrics-text;version=1.0.0"), form_of("*/*")
    ('application/openmetrics-text', 'text/plain')
    """
    return _OPEN_METRICS if _wants_openmetrics(accept_header) else _PLAIN


def _wants_openmetrics(accept_header: str) -> bool:
    """Only a header that names OpenMetrics. A client that accepts anything, as curl does, belongs to a person, who
    reads the simpler format."""
    best = {_OPEN_METRICS: 0.0, _PLAIN: 0.0}
    for media_range in accept_header.split(","):
        media_type, *parameters = (part.strip().lower() for part in media_range.split(";"))
        given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media_type in best and given.get("version", "1").split(".")[0] in _VERSIONS[media_type]:
            best[media_type] = max(best[media_type], _quality(given.get("q", "1")))
    return best[_OPEN_METRICS] > 0 and best[_OPEN_METRICS] >= best[_PLAIN]


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
