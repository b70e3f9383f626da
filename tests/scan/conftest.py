"""What tests of scans over HTTP share."""

import pytest

from tests.scan.asking import Deadline


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch) -> Deadline:
    return Deadline(monkeypatch)
