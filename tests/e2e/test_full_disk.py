"""A worker whose disk is full: the work fails with a clear error, the process lives, and one with room helps."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROWS
from tests.e2e.crew import Coordinator, Crew, until
from tests.e2e.door import RefusedError, Scan
from tests.e2e.lake import ALL, Lake, same
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-strangers")

SIZE_MB = 8
LARGE_ROWS = 700_000
LARGE = f"SELECT i AS id, hash(i) AS a, hash(i + 1) AS b FROM range({LARGE_ROWS}) t(i)"
"""Some 11 MB that cannot be compressed, whatever the files are."""


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own, outside the folders that pytest deletes by itself."""
    folder = Path(tempfile.mkdtemp(prefix="quarterdeck-disk-"))
    options = ["-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"this user may not mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        # The engines of a worker that was killed end by themselves, a moment later.
        until(lambda: subprocess.run(["umount", str(folder)], check=False).returncode == 0, "nobody uses the disk")
        folder.rmdir()


def test_a_full_disk_fails_the_work_and_not_the_worker_and_another_with_room_takes_over(
    coordinator: Coordinator, small_disk: Path, tmp_path: Path, lake: Lake, tenant: str
) -> None:
    with Proxy(coordinator.control) as door, Crew(small_disk) as small, Crew(tmp_path) as roomy:
        door.refuse()
        tight = small.worker("tight", join=[coordinator.control], tenant=tenant, disk_keep_free_bytes=0)
        helper = roomy.worker("helper", join=[door.address], tenant=tenant)
        coordinator.wait_for(tight)
        with pytest.raises(RefusedError) as refused:
            coordinator.door.scan(Scan(LARGE, tenant=tenant))
        assert refused.value.code == "attempts_exhausted"
        assert "there is no room for" in str(refused.value)
        failed = coordinator.log.find("work failed", session_id=coordinator.session_of(tight))
        assert {record["code"] for record in failed} == {"resource_exhausted"}
        assert tight.is_running
        assert not tight.artifact_files
        assert same(coordinator.door.scan(Scan(ALL, lake.files[:4], tenant)).table, lake.truth(ALL).slice(0, 4 * ROWS))

        door.restore()
        coordinator.wait_for(helper)
        answer = coordinator.door.scan(Scan(LARGE, lake.files[:16], tenant))
        assert answer.table.num_rows == 16 * LARGE_ROWS
        query = coordinator.query(answer.query_id)
        assert query["by_worker"] == {"helper": 16}
        assert query["attempts"] > 16, "the other one tried"
        assert tight.is_running
