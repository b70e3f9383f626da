"""Log searches where a disk is full: the root says so, and a worker leaves its part to others. No file is blamed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.e2e.crew import Crew, Recruiter
from tests.e2e.door import RefusedError
from tests.e2e.log_lines import Logs, search, write_logs
from tests.small_disk import a_disk
from tests.stores.s3 import Bucket, moto

pytestmark = pytest.mark.xdist_group("e2e-search")

FILES, LINES = 2, 60_000
"""Some 10 MB each."""
LITTLE: dict[str, object] = {"search__memory_bytes": "64KiB"}
ROOTS: dict[str, Callable[[Crew, Crew], Recruiter]] = {
    "full disk": lambda _, small: small.recruiter("small", **LITTLE),
    "spent budget of a recruiter": lambda roomy, _: roomy.recruiter("root", spool_limit_bytes="2MiB", **LITTLE),
    "spent budget of a coordinator": lambda roomy, _: roomy.coordinator("root", spool_limit_bytes="2MiB", **LITTLE),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", FILES, LINES)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Crew]:
    """Whose members have a disk of 3 MB."""
    with a_disk("size=3m", tmp_path, in_sight=True) as disk, Crew(disk) as crew:
        yield crew


@pytest.mark.parametrize("where", ROOTS)
def test_a_root_without_room_for_the_rows_says_so_and_lives(crew: Crew, small: Crew, logs: Logs, where: str) -> None:
    root = ROOTS[where](crew, small).wait_up()
    with pytest.raises(RefusedError, match="there is no room for what the search found") as refused:
        root.door.post("/v1/search", {"query": "| sort bytes", "sources": [logs.source]})
    assert refused.value.code == "resource_exhausted"
    assert root.is_running
    assert search(root, "| count()", [logs.source]).rows == [{"count": FILES * LINES}]


def test_a_worker_with_a_full_disk_leaves_its_part_to_the_root_and_no_file_is_blamed(
    crew: Crew, small: Crew, logs: Logs, tmp_path: Path
) -> None:
    table = tmp_path / "app.parquet"
    duckdb.sql(f"COPY (SELECT *, md5(id::VARCHAR) AS hash FROM '{logs.folder}/*.ndjson') TO '{table}'")
    assert table.stat().st_size > 4 * 1024**2
    with moto() as server:
        bucket: Bucket = server.make_bucket()
        bucket.put("logs/app.parquet", table.read_bytes())
        options = bucket.options
        s3: dict[str, object] = {
            "s3.endpoint": options.endpoint,
            "s3.region": options.region,
            "s3.access_key_id": options.access_key_id,
            "s3.secret_access_key": options.secret_access_key,
            "s3.allow_http": "true",
        }
        root = crew.coordinator("root", **s3).wait_up()
        tight = small.worker("tight", join=[root.control], recruiter__urls=root.http, disk_keep_free_bytes=0, **s3)
        root.wait_free(1)
        found = search(root, "| count()", [f"{bucket.url}/logs/"])
        assert found.rows == [{"count": FILES * LINES}]
        assert found.done["status"] == "ok"
        assert found.done["retried"] >= 1, "the worker tried"
        assert found.workers == {}
        assert tight.is_running
        assert "there is no room for" in root.log.find("worker lost")[0]["reason"]
