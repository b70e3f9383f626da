"""`warm`: makes the compiled form of every kernel before a query needs one."""

import contextlib
import hashlib
import importlib
import pkgutil
from collections.abc import Generator
from pathlib import Path

from quarterdeck.metrics.promql import kernels
from quarterdeck.metrics.promql.kernels import compile as compiling


def warm() -> None:
    """Compile all kernels, or load what an earlier process has compiled.

    Takes half a minute on a machine that has never done it, and otherwise a second; of several processes that begin at
    once, one compiles and the others wait for it. A kernel that no function marked with `warms` has called, or one that
    was called with two sets of types, is an error: a query would wait for it. Kernels in other packages are among them
    if they were imported before.
    """
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{module.name}")
    with _one_at_a_time():
        for run in compiling.warmers():
            run()
    wrong = {name: forms for name, forms in compiling.compiled_forms().items() if forms != 1}
    if wrong:
        raise RuntimeError(f"each kernel should have one compiled form by now, but: {wrong}")


@contextlib.contextmanager
def _one_at_a_time() -> Generator[None]:
    """While the kernels of these sources have never been compiled here. Where no file can be written, all compile."""
    mark = f"warmed-{_digest()}"
    places = compiling.folders(Path(__file__))
    if any(folder.read(mark) is not None for folder in places):
        yield
        return
    with contextlib.ExitStack() as stack:
        taken = None
        for folder in places:
            with contextlib.suppress(OSError):
                stack.enter_context(folder.locked(f"{mark}.lock"))
                taken = folder
                break
        yield
        if taken is not None:
            with contextlib.suppress(OSError):
                taken.write(mark, b"")


def _digest() -> str:
    """Of everything that decides what is compiled."""
    digest = hashlib.sha256()
    for source in sorted(compiling.all_sources()):
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    warm()
