"""Segments in a bucket of S3, and the catalog in Postgres: imported, queried by two workers, and missed when gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarterdeck.command import app
from quarterdeck.stores.objects import ObjectStores
from tests.contract.database.places import NoServer, PostgresServer, postgres
from tests.e2e.crew import Coordinator, Crew
from tests.e2e.door import TOKEN
from tests.e2e.promql import Ask, answer
from tests.e2e.samples import Samples, Store
from tests.stores.s3 import Bucket, moto

pytestmark = pytest.mark.xdist_group("e2e-cloud")

CLOUD = Samples("cloud", series=600, times=2600)


@dataclass(frozen=True)
class Cloud:
    server: PostgresServer
    bucket: Bucket
    coordinator: Coordinator
    store: Store


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    try:
        with postgres() as server, moto() as s3, Crew(tmp_path_factory.mktemp("cloud")) as crew:
            bucket = s3.make_bucket()
            options = bucket.options
            settings = {
                "s3.endpoint": options.endpoint,
                "s3.region": options.region,
                "s3.access_key_id": options.access_key_id,
                "s3.secret_access_key": options.secret_access_key,
                "s3.allow_http": True,
            }
            url, lake = server.empty_database(), f"{bucket.url}/metrics"
            coordinator = crew.coordinator("cloud", database_url=url, metrics__lake_url=lake, **settings)
            workers = [
                crew.worker(name, join=[coordinator.control], kinds="leaf", **settings) for name in ("bow", "stern")
            ]
            coordinator.wait_for(*workers)
            yield Cloud(server, bucket, coordinator, Store(url, lake, ObjectStores(options)))
    except NoServer as error:
        pytest.skip(f"Postgres: {error}")


def test_samples_in_a_bucket_with_a_catalog_in_postgres_are_queried_by_two_workers(
    cloud: Cloud, tmp_path: Path
) -> None:
    cloud.store.put(CLOUD, "default", 16, tmp_path)
    ask = CLOUD.ask("sum by (job) (sum_over_time($m[5m]))")
    for _ in range(2):  # from the bucket, and from the workers' caches
        reply = answer(cloud.coordinator.door, ask)
        assert reply.result == CLOUD.truth(ask)
        assert cloud.coordinator.query(reply.query_id)["by_worker"].keys() == {"bow", "stern"}


def test_the_command_writes_there_with_its_own_keys_and_password(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.om").write_text("rain 3 1700000000\n# EOF\n")
    monkeypatch.setenv("QUARTERDECK_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(cloud.bucket.options.access_key_id))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(cloud.bucket.options.secret_access_key))
    command = ["import", str(tmp_path / "a.om"), "--url", cloud.coordinator.http]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 65
    assert "has its catalog at postgresql://" in told.stderr
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_DATABASE_URL", cloud.store.database_url)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    assert f"lake: {cloud.store.lake_url}, with the catalog postgresql://" in done.stdout
    (one,) = answer(cloud.coordinator.door, Ask("rain", {"start": 1700000000, "end": 1700000000, "step": 60})).result
    assert one["values"] == [[1700000000, "3"]]
    listed = CliRunner().invoke(app, ["import", "--list", "--url", cloud.coordinator.http])
    assert "1 sample of 1 series, at 2023-11-14T22:13:20Z" in listed.stdout


def test_a_segment_that_is_gone_from_the_bucket_is_told_by_its_url(cloud: Cloud, tmp_path: Path) -> None:
    samples = Samples("drizzle", series=60, times=100)
    cloud.store.put(samples, "default", 2, tmp_path)
    ((place,), *_) = cloud.server.execute("SELECT url FROM segments ORDER BY segment_id DESC")
    cloud.bucket.delete(f"metrics/{place}")
    ask = samples.ask("$m", step_s=300)
    reply = answer(cloud.coordinator.door, ask)
    assert reply.error == (422, "execution")
    assert f"{cloud.bucket.url}/metrics/{place}" in reply.text
    partial = answer(cloud.coordinator.door, ask.where(partial="allow"))
    assert 0 < len(partial.result) < samples.series
    assert all(one in samples.truth(ask) for one in partial.result)
    (warning,) = partial.warnings
    assert place in warning
