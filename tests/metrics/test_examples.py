"""The examples in the docstrings of metrics are true."""

import doctest
import importlib
import pkgutil

import pytest

from quarterdeck import metrics

MODULES = sorted(module.name for module in pkgutil.walk_packages(metrics.__path__, f"{metrics.__name__}."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    found = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert found > 30
