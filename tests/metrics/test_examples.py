"""The examples in the docstrings of metrics are true."""

import doctest
import importlib
import pkgutil

from quarterdeck import metrics

MODULES = sorted(module.name for module in pkgutil.walk_packages(metrics.__path__, f"{metrics.__name__}."))


def test_the_examples_of_every_module_give_what_they_say() -> None:
    """One test for all modules: most have no example, and each is looked through once."""
    results = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 30
