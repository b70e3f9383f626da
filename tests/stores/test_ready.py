"""`/ready` of the processes names what hangs."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from quarterdeck.config import CoordinatorSettings
from quarterdeck.coordinator.process import Coordinator
from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.crew.process.guard import Guard
from quarterdeck.search.process import Recruiter
from quarterdeck.search.settings import RECRUITER_SETTINGS
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.objects import ObjectStores

SOON_S = 0.3


def recruiter(folder: DataFolder, guard: Guard) -> tuple[ObjectStores, Callable[[], Sequence[str]]]:
    made = Recruiter(RECRUITER_SETTINGS(store_timeout_s=SOON_S), folder, guard)
    return made._objects, made._missing  # pyright: ignore[reportPrivateUsage]


def coordinator(folder: DataFolder, guard: Guard) -> tuple[ObjectStores, Callable[[], Sequence[str]]]:
    made = Coordinator(CoordinatorSettings(data_dir=folder.path, store_timeout_s=SOON_S), folder, guard, ())
    return made._objects, made._missing  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("make", [recruiter, coordinator])
def test_a_process_whose_store_hangs_is_not_ready_and_says_why_and_is_ready_again(
    tmp_path: Path, make: Callable[[DataFolder, Guard], tuple[ObjectStores, Callable[[], Sequence[str]]]]
) -> None:
    answers = threading.Event()

    async def scene(folder: DataFolder) -> None:
        objects, missing = make(folder, Guard(None, None, insecure=False))
        before = list(missing())
        with pytest.raises(QuarterdeckError, match="did not answer"):
            await objects.look(Path("/mnt/a.log"), answers.wait)
        while not (told := set(missing()) - set(before)):  # noqa: ASYNC110 - its thread began later than the call
            await asyncio.sleep(0.001)
        assert len(told) == 1
        assert told.pop().startswith("1 call to the object store hangs: /mnt/a.log for ")
        answers.set()
        while list(missing()) != before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    with DataFolder(tmp_path / "c") as folder:
        asyncio.run(scene(folder))
