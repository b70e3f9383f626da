"""A search over a bucket with real processes: of every kind of file, by workers that read what they need of it."""

import gzip
from collections.abc import Iterator

import duckdb
import pytest

from tests.e2e.crew import Coordinator, Crew
from tests.e2e.log_lines import Logs, search, write_logs
from tests.stores.s3 import Bucket, moto

pytestmark = pytest.mark.xdist_group("e2e-search")

FILES, LINES = 4, 60_000
"""Some 10 MB each: two are plain and in parts, one is gzip, one Parquet."""
CREW = 2


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", FILES, LINES)


@pytest.fixture(scope="module")
def bucket(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    table = tmp_path_factory.mktemp("table") / "app-3.parquet"
    duckdb.sql(f"COPY (SELECT * REPLACE (ts::VARCHAR AS ts) FROM '{logs.folder}/app-3.ndjson') TO '{table}'")
    with moto() as server:
        bucket = server.make_bucket()
        for name in ("app-0.ndjson", "app-1.ndjson"):
            bucket.put(f"logs/{name}", (logs.folder / name).read_bytes())
        packed = gzip.compress((logs.folder / "app-2.ndjson").read_bytes(), 1)
        bucket.put("logs/app-2.ndjson.gz", packed)
        bucket.put("logs/app-3.parquet", table.read_bytes())
        bucket.put("damaged/whole.ndjson", (logs.folder / "app-0.ndjson").read_bytes())
        bucket.put("damaged/cut-off.ndjson.gz", packed[:-1000])
        yield bucket


@pytest.fixture(scope="module")
def root(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    options = bucket.options
    s3: dict[str, object] = {
        "s3.endpoint": options.endpoint,
        "s3.region": options.region,
        "s3.access_key_id": options.access_key_id,
        "s3.secret_access_key": options.secret_access_key,
        "s3.allow_http": "true",
    }
    with Crew(tmp_path_factory.mktemp("root")) as crew:
        root = crew.coordinator("coordinator", **s3).wait_up()
        for number in range(CREW):
            crew.worker(f"b{number}", join=[root.control], recruiter__urls=root.http, **s3)
        yield root


def test_a_bucket_is_searched_by_reserved_workers(root: Coordinator, bucket: Bucket, logs: Logs) -> None:
    root.wait_free(CREW)
    found = search(root, "| count(), sum(bytes) by host, level", [f"{bucket.url}/logs/"])
    assert found.rows == logs.truth(
        "SELECT host, level, count(*) AS count, sum(bytes)::BIGINT AS sum_bytes FROM logs GROUP BY ALL ORDER BY ALL"
    )
    assert found.done["status"] == "ok"
    assert len(found.workers) == CREW
    root.wait_free(CREW)


def test_records_of_a_bucket_come_in_the_order_of_time(root: Coordinator, bucket: Bucket, logs: Logs) -> None:
    root.wait_free(CREW)
    found = search(root, 'level=error "timed out" | cut id', [f"{bucket.url}/logs/*"])
    assert found.rows == logs.truth(
        "SELECT id FROM logs WHERE level = 'error' AND contains(msg, 'timed out') ORDER BY id"
    )


def test_a_damaged_object_is_named_and_the_rest_is_searched(root: Coordinator, bucket: Bucket) -> None:
    root.wait_free(CREW)
    found = search(root, "| count()", [f"{bucket.url}/damaged/"])
    assert found.rows == [{"count": LINES}]
    assert found.done["status"] == "partial"
    assert [problem["url"] for problem in found.done["problems"]] == [f"{bucket.url}/damaged/cut-off.ndjson.gz"]
