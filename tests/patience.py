"""How long a test waits for what must come: only a test that fails waits so long, whatever else the machine does."""

from typing import Final

PATIENCE_S: Final = 100.0
"""Less than what pytest gives a test, so that the test tells what did not come."""
