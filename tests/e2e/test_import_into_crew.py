"""`quarterdeck import` and a running crew: what is imported is what that crew answers with, or it is said why not."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from tests.cli.scripted import Script, scripted_coordinator
from tests.e2e.crew import Coordinator, Crew
from tests.e2e.door import TOKEN
from tests.stores.s3 import Bucket, moto

pytestmark = pytest.mark.xdist_group("e2e-import")

METRICS = 'up{job="a"} 1 1700000000\nup{job="a"} 2 1700000060\n# EOF\n'
TIMES = "from 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z"
LAKE = "/v1/lake"
ODD = {
    "machine": 1,
    "catalog": {"place": "/a", "mark": {"path": 1}},
    "segments": {"place": "/a", "mark": None},
    "s3": None,
    "orphan_grace_s": "x",
}


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """In a folder of its own, with a token that it has made."""
    with Crew(tmp_path_factory.mktemp("crew"), shares_token=False) as crew:
        coordinator = crew.coordinator()
        url = coordinator.http
        crew.worker("w1", join=[coordinator.control], metrics__leaf_threads=1, kinds="leaf,scan", recruiter__urls=url)
        yield coordinator


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is run: not in the folder of the crew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUARTERDECK_TOKEN", raising=False)
    (tmp_path / "a.om").write_text(METRICS)
    return tmp_path


def run(*arguments: str, url: str, read: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", url], input=read, env={"COLUMNS": "200"})


def lake_of(coordinator: Coordinator) -> Path:
    return coordinator.folder.parent / "lake"


def test_what_is_imported_in_another_folder_is_what_the_crew_answers_with(
    coordinator: Coordinator, elsewhere: Path
) -> None:
    result = run("import", "a.om", "--tenant", "team-a", url=coordinator.http)
    target = f"{lake_of(coordinator)}, the lake of the crew at {coordinator.http}"
    assert (result.exit_code, result.stderr) == (0, f"importing into {target}\n")
    told, lake = result.stdout.splitlines()
    assert told.startswith("a.om: 2 samples of 1 series in 1 segment, ")
    assert told.endswith(TIMES)
    assert lake == f"lake: {target}"
    answer = run("query", "up", "--at", "1700000060", "--tenant", "team-a", url=coordinator.http)
    assert answer.stdout == 'up{job="a"}  2\n', answer.stderr
    listed = run("import", "--list", "--tenant", "team-a", url=coordinator.http)
    assert listed.stdout.splitlines()[0] == f"lake: {target}"
    assert listed.stdout.endswith(f"a.om: 2 samples of 1 series, {TIMES}\n")
    assert (
        "nothing was imported for team-b" in run("import", "--list", "--tenant", "team-b", url=coordinator.http).stdout
    )
    assert [path.name for path in elsewhere.iterdir()] == ["a.om"]


def test_the_page_of_a_coordinator_is_imported_as_it_is_and_answers_for_now(coordinator: Coordinator) -> None:
    page = coordinator.door.ask("GET", "/metrics").decode()
    more = ("--format", "prometheus", "--at", "now", "--tenant", "page")
    result = run("import", "-", *more, url=coordinator.http, read=page)
    assert result.exit_code == 0, result.stderr
    answer = run("query", "quarterdeck_build_info", "--tenant", "page", url=coordinator.http)
    assert answer.stdout.startswith("quarterdeck_build_info"), answer.stderr


def test_a_lake_that_the_settings_name_must_be_the_crews(coordinator: Coordinator, elsewhere: Path) -> None:
    result = run("import", "a.om", "--set", f"metrics.lake_url={elsewhere}/other", url=coordinator.http)
    assert (result.exit_code, result.stdout) == (65, "")
    assert (
        f"has the segments at {lake_of(coordinator)}/segments, and metrics.lake_url is {elsewhere}/other here"
        in result.stderr
    )
    assert "--offline" in result.stderr
    same = (f"metrics.lake_url={lake_of(coordinator)}/segments", f"database_url={lake_of(coordinator)}/catalog.db")
    named = [argument for setting in same for argument in ("--set", setting)]
    assert run("import", "a.om", "--tenant", "named", *named, url=coordinator.http).exit_code == 0
    (elsewhere / "link").symlink_to(lake_of(coordinator))
    link = run(
        "import",
        "a.om",
        "--tenant",
        "named",
        "--set",
        f"database_url={elsewhere}/link/catalog.db",
        url=coordinator.http,
    )
    assert "nothing to do" in link.stdout, "the same file by another path"
    apart = (f"metrics.lake_url={elsewhere}/x/segments", f"database_url={elsewhere}/x/catalog.db")
    alone = [argument for setting in apart for argument in ("--set", setting)]
    offline = run("import", "a.om", "--offline", *alone, url=coordinator.http)
    assert (offline.exit_code, offline.stdout.splitlines()[-1]) == (0, f"lake: {elsewhere}/x")


def test_a_wrong_token_imports_nothing(coordinator: Coordinator, elsewhere: Path) -> None:
    (elsewhere / "token").write_text("not-the-token-of-this-crew\n")
    result = run("import", "a.om", "--token-file", "token", url=coordinator.http)
    assert (result.exit_code, result.stdout) == (77, "")
    assert "its token is not the one of this crew" in result.stderr
    assert {path.name for path in elsewhere.iterdir()} == {"token", "a.om"}


# Lakes that are not here


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    monkeypatch.setenv("QUARTERDECK_TOKEN", TOKEN)
    with scripted_coordinator() as script:
        yield script


def described(folder: Path, **more: object) -> dict[str, object]:
    mark = {"path": str(folder), "device": 1, "inode": folder.stat().st_ino, "boot": "another"}
    return {
        "machine": "far-away",
        "catalog": {"place": f"{folder}/catalog.db", "mark": mark},
        "segments": {"place": f"{folder}/segments", "mark": mark},
        "s3": None,
        "orphan_grace_s": 86400.0,
        **more,
    }


def test_the_folders_of_another_machine_are_not_taken_for_those_of_this_one(script: Script, elsewhere: Path) -> None:
    script.answers[LAKE] = (200, described(elsewhere))
    result = run("import", "a.om", url=script.url)
    assert (result.exit_code, result.stdout) == (69, "")
    assert f"has the catalog {elsewhere}/catalog.db and the segments {elsewhere}/segments on the disk of far-away" in (
        result.stderr
    )
    assert "run the command there, or give the crew a lake that both can reach" in result.stderr
    assert [path.name for path in elsewhere.iterdir()] == ["a.om"]


def test_who_answers_without_being_known_is_not_told_what_is_imported(
    script: Script, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUARTERDECK_TOKEN")
    script.answers[LAKE] = (200, described(elsewhere))
    result = run("import", "a.om", url=script.url)
    assert (result.exit_code, result.stdout) == (84, "")
    assert "is not known to be a crew of yours" in result.stderr
    assert "--token-file" in result.stderr


def test_a_database_server_is_named_and_its_password_is_for_this_command_to_know(
    script: Script, elsewhere: Path
) -> None:
    server = {"place": "postgresql://db.example:5432/lake", "mark": None}
    bucket = {"place": "s3://lake/metrics", "mark": None}
    script.answers[LAKE] = (
        200,
        described(elsewhere, catalog=server, segments=bucket, s3={"endpoint": None, "region": "r"}),
    )
    unnamed = run("import", "a.om", url=script.url)
    assert unnamed.exit_code == 65
    assert "has its catalog at postgresql://db.example:5432/lake, and does not tell the password" in unnamed.stderr
    assert "QUARTERDECK_COORDINATOR_DATABASE_URL" in unnamed.stderr
    other = run("import", "a.om", "--set", "database_url=postgresql://u:secret@db.example/other", url=script.url)
    assert other.exit_code == 65
    assert "database_url is postgresql://db.example:5432/other here" in other.stderr
    assert "secret" not in other.stderr
    elsewhere_in_s3 = run(
        "import",
        "a.om",
        "--set",
        "database_url=postgresql://u:p@db.example/lake",
        "--set",
        "metrics.lake_url=s3://lake/x",
        url=script.url,
    )
    assert "has the segments at s3://lake/metrics, and metrics.lake_url is s3://lake/x here" in elsewhere_in_s3.stderr
    endpoint = run(
        "import",
        "a.om",
        "--set",
        "database_url=postgresql://u:p@db.example/lake",
        "--set",
        "s3.endpoint=https://other.example",
        url=script.url,
    )
    assert "s3.endpoint is https://other.example here" in endpoint.stderr


@pytest.mark.parametrize("answer", [(404, {}), (200, {}), (200, {"catalog": 1}), (200, []), (200, ODD)])
def test_what_is_no_coordinator_of_this_release_is_told(script: Script, answer: tuple[int, object]) -> None:
    script.answers[LAKE] = answer
    result = run("import", "a.om", url=script.url)
    assert result.exit_code == 76
    assert "is not a coordinator that this command understands" in result.stderr


def test_the_route_tells_no_secret_and_needs_the_token(coordinator: Coordinator) -> None:
    result = run("token", url=coordinator.http)
    token = result.stdout.strip()
    door = coordinator.door
    told = type(door)(door.url, door.context, token).get(LAKE)
    assert told["catalog"]["place"] == f"{lake_of(coordinator)}/catalog.db"
    assert told["segments"]["mark"]["path"] in (f"{lake_of(coordinator)}/segments", str(lake_of(coordinator)))
    with pytest.raises(Exception, match="401"):
        type(door)(door.url, door.context, None).get(LAKE)


# Buckets


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with moto() as server:
        yield server.make_bucket()


def keys(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """As other tools find them."""
    options = bucket.options
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(options.access_key_id))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(options.secret_access_key))


def settings_of(bucket: Bucket) -> dict[str, object]:
    options = bucket.options
    return {
        "s3.endpoint": options.endpoint,
        "s3.region": options.region,
        "s3.access_key_id": options.access_key_id,
        "s3.secret_access_key": options.secret_access_key,
        "s3.allow_http": True,
    }


def test_objects_and_globs_of_a_bucket_are_imported_once_whatever_their_name_is(
    coordinator: Coordinator, bucket: Bucket, elsewhere: Path
) -> None:
    bucket.put("in/a.om", METRICS.encode())
    bucket.put("in/b.om.gz", gzip.compress(METRICS.replace("up", "down").encode()))
    bucket.put("in/bad.om", b"up{ 1\n# EOF\n")
    bucket.put("odd/what.txt", METRICS.encode())
    s3 = [argument for name, value in settings_of(bucket).items() for argument in ("--set", f"{name}={value}")]
    more = ("--tenant", "bucket", *s3)
    result = run("import", f"{bucket.url}/in/*", *more, url=coordinator.http)
    assert result.exit_code == 65
    first, second, _ = result.stdout.splitlines()
    assert first.startswith(f"{bucket.url}/in/a.om: 2 samples of 1 series")
    assert second.startswith(f"{bucket.url}/in/b.om.gz: 2 samples of 1 series")
    assert f"{bucket.url}/in/bad.om line 1 cannot be imported" in result.stderr
    assert "nothing to do" in run("import", "a.om", *more, url=coordinator.http).stdout
    unknown = run("import", f"{bucket.url}/odd/", *more, url=coordinator.http)
    assert (unknown.exit_code, unknown.stdout) == (65, "")
    assert "say it with --format" in unknown.stderr
    assert run("import", f"{bucket.url}/none.om", *more, url=coordinator.http).exit_code == 66
    answer = run("query", "down", "--at", "1700000060", "--tenant", "bucket", url=coordinator.http)
    assert answer.stdout == 'down{job="a"}  2\n', answer.stderr


def test_segments_go_into_the_bucket_of_the_crew_with_the_keys_of_this_command(
    bucket: Bucket, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Crew(tmp_path_factory.mktemp("cloud")) as crew:
        lake = f"{bucket.url}/metrics"
        settings = settings_of(bucket)
        coordinator = crew.coordinator("cloud", metrics__lake_url=lake, **settings)
        worker = crew.worker("w1", join=[coordinator.control], metrics__leaf_threads=1, kinds="leaf", **settings)
        coordinator.wait_for(worker)
        monkeypatch.setenv("QUARTERDECK_TOKEN", TOKEN)
        keys(bucket, monkeypatch)
        result = run("import", "a.om", url=coordinator.http)
        assert result.exit_code == 0, result.stderr
        catalog = crew.folder / "lake" / "catalog.db"
        target = f"{lake}, with the catalog {catalog}, the lake of the crew at {coordinator.http}"
        assert result.stdout.splitlines()[-1] == f"lake: {target}"
        answer = run("query", "up", "--at", "1700000060", url=coordinator.http)
        assert answer.stdout == 'up{job="a"}  2\n', answer.stderr


def test_sample_data_goes_into_the_running_crew_and_all_that_it_proposes_works_when_pasted(
    coordinator: Coordinator, elsewhere: Path
) -> None:
    result = run("sample-data", "--tenant", "sample", "--hours", "2", url=coordinator.http)
    assert result.exit_code == 0, result.stderr
    assert f"lake: {lake_of(coordinator)}, the lake of the crew at {coordinator.http}\n" in result.stdout
    proposed = [line.strip() for line in result.stdout.splitlines() if line.startswith("  quarterdeck ")]
    assert [command.split()[1] for command in proposed] == ["query", "query", "metrics", "scan", "search"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    shown = [
        subprocess.run(command, shell=True, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
        for command in proposed
    ]
    assert [done.returncode for done in shown] == [0] * len(proposed), [done.stderr for done in shown]
    rates, slowest, names, statuses, errors = (done.stdout for done in shown)
    assert rates.count("api,") > 50
    assert slowest.count("web,") > 50
    assert "http_requests_total" in names
    assert "counter" in names
    assert {"200", "404", "500"} <= set(statuses.split())
    assert '"service":"api"' in errors.replace(" ", "")
    native = run(
        "query",
        "histogram_quantile(0.9, sum(rate(rpc_duration_seconds[5m])))",
        "--tenant",
        "sample",
        url=coordinator.http,
    )
    assert 0 < float(native.stdout.split()[-1]) < 5, native.stderr
    old = run("query", "up", "--at", "now-1d", "--tenant", "sample", url=coordinator.http)
    assert "the answer is empty: `up` has samples from " in old.stderr
    near = run("query", "http_request_total", "--tenant", "sample", url=coordinator.http)
    assert "did you mean `http_requests_total`" in near.stderr
    nobody = run("query", "up", "--tenant", "nobody", url=coordinator.http)
    assert "there are no metrics for the tenant nobody" in nobody.stderr
