"""One compiled form for each kernel, however the arrays came to be; and no compiled code that is out of date."""

from types import FunctionType
from typing import Any, cast

import numpy as np

from quarterdeck.engines.kernel_parts import parts_of
from quarterdeck.metrics.promql.blocks import Axis, Grid, SeriesBlock
from quarterdeck.metrics.promql.kernels import windows_spread
from quarterdeck.metrics.promql.kernels.compile import kernels
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.kernels.windows import WindowFunction, instant, over_windows, warm_windows


def test_read_only_and_strided_blocks_need_no_other_compiled_form() -> None:
    warm_windows()
    frozen = np.arange(10.0)
    frozen.flags.writeable = False
    strided = np.arange(20, dtype=np.int64)[::2]
    block = SeriesBlock(Axis.of(()), np.array([0, 4, 10]), strided, frozen)
    half = np.full(8, 0.5)[::2]
    with Threads(1) as threads:
        over_windows(WindowFunction.QUANTILE, block, Grid(4, 4, 4), 5, threads, (half,))
        over_windows(WindowFunction.RATE, block, Grid(4, 4, 4), 5, threads)
        instant(block, Grid(4, 4, 4), 5, threads)
    assert [each.is_loaded for each in kernels() if ".windows" in each.name] == [True] * 15


def test_a_kernel_is_compiled_anew_when_a_function_in_another_file_changes() -> None:
    function = cast("FunctionType", cast("Any", windows_spread.spreads).py_func)
    names = {part.__module__.rpartition(".")[2] for part in parts_of(function)}
    assert names == {"windows_spread", "windows_scan", "windows_sums"}
