"""`hidden`: loads a library without what it would load only because that happens to be installed."""

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def hidden(name: str) -> Generator[None]:
    """Imports of this module fail in the block, as if it were not installed; unless it has been loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # pyright: ignore[reportArgumentType] - what the import system documents for this
    try:
        yield
    finally:
        del sys.modules[name]
