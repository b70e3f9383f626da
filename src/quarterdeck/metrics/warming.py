"""All compiled code that a query may need, compiled or loaded before one comes: `warm_all`, or this as a program."""

from quarterdeck.metrics.api import frames, numbers, rendering
from quarterdeck.metrics.promql.kernels.warm import warm

_IMPORTED = (frames, numbers, rendering)
"""Their kernels are known to `warm` once they are imported."""


def warm_all() -> None:
    """See `warm`."""
    warm()


if __name__ == "__main__":
    warm_all()
