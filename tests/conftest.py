"""Every test is watched for what it leaves behind.

Unraisable exceptions and exceptions in threads need nothing here: pytest warns of them, and warnings are errors.
"""

from collections.abc import Iterator

import pytest

from tests.leaks import no_leaks


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    with no_leaks():
        yield
