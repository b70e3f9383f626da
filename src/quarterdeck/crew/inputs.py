"""The files a work reads, brought through the parquet cache and pinned until it has read them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.stores.objects import ObjectRef
from quarterdeck.stores.parquet_cache import ParquetCache

_OPEN_AT_ONCE: Final = 8
"""How many files of one work are downloaded side by side. More fill a fast network; fewer are fairer to other works."""


def _nothing(opened: int) -> None:
    """For a work that tells nobody."""


@asynccontextmanager
async def opened_files(
    cache: ParquetCache,
    refs: Sequence[ObjectRef],
    *,
    on_opened: Callable[[int], None] = _nothing,
    on_unreadable: Callable[[int, QuarterdeckError], None] | None = None,
) -> AsyncGenerator[list[Path | None]]:
    """Where all the files are, or the first error of one of them.

    `on_opened` is told how many are there already. With `on_unreadable`, which gets the place of a file and what is
    wrong with it, a file that retrying cannot bring is left out: its path is None.
    """
    paths: list[Path | None] = [None] * len(refs)
    opened = 0
    async with AsyncExitStack() as stack:
        left = iter(enumerate(refs))

        async def open_one_after_the_other() -> None:
            nonlocal opened
            for index, ref in left:
                try:
                    paths[index] = await stack.enter_async_context(cache.open(ref))
                except QuarterdeckError as error:
                    if error.retryable or on_unreadable is None:
                        raise
                    on_unreadable(index, error)
                opened += 1
                on_opened(opened)

        if len(refs) == 1:
            await open_one_after_the_other()
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in refs[:_OPEN_AT_ONCE]:
                        group.create_task(open_one_after_the_other())
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from errors
        yield paths
