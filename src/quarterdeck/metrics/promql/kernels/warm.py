"""`warm`: makes the compiled form of every kernel before a query needs one."""

import importlib
import pkgutil

from quarterdeck.metrics.promql import kernels
from quarterdeck.metrics.promql.kernels import compile as compiling


def warm() -> None:
    """Compile all kernels, or load what an earlier process has compiled.

    Takes half a minute on a machine that has never done it, and otherwise a second. A kernel that no function marked
    with `warms` has called, or one that was called with two sets of types, is an error: a query would wait for it.
    """
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{module.name}")
    for run in compiling.warmers():
        run()
    wrong = {name: forms for name, forms in compiling.compiled_forms().items() if forms != 1}
    if wrong:
        raise RuntimeError(f"each kernel should have one compiled form by now, but: {wrong}")


if __name__ == "__main__":
    warm()
