"""All kernels that a query may need, compiled or loaded before one comes: `warm_all`."""

from quarterdeck.engines.first_compile import OnProgress, OnWait
from quarterdeck.metrics.api import frames, numbers, rendering
from quarterdeck.metrics.promql.kernels.warm import warm

_IMPORTED = (frames, numbers, rendering)
"""Their kernels are known to `warm` once they are imported."""


def warm_all(on_progress: OnProgress | None = None, on_wait: OnWait | None = None) -> None:
    """See `warm`."""
    warm(on_progress, on_wait)
