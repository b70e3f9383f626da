"""The environment of whoever runs the tests does not count."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("QUARTERDECK_"):
            monkeypatch.delenv(name)
