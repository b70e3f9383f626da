"""Settings as values: what each may be, what makes no sense together, and what is worked out."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.config import CoordinatorSettings, WorkerSettings
from quarterdeck.config.conflicts import ConflictError
from quarterdeck.config.s3 import S3Settings
from quarterdeck.config.section import sections_of
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import allowed
from quarterdeck.metrics.settings import LeafSettings, MetricsSettings
from quarterdeck.reference import every_process

GIB = 1024**3

COORDINATOR = configuration(CAPABILITIES).coordinator
WORKER = configuration(CAPABILITIES).worker


def nested(name: str, value: object) -> dict[str, Any]:
    """A setting as in a file: below its section, if its name has a dot."""
    above, _, own = name.rpartition(".")
    return {above: {own: value}} if above else {own: value}


def rules_broken(process: type[ProcessSettings], **values: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        process.model_validate(values)
    (detail,) = refused.value.errors()
    conflict = detail.get("ctx", {})["error"]
    assert isinstance(conflict, ConflictError)
    return [one.rule for one in conflict.conflicts]


def test_settings_made_directly_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS", "77")
    assert WorkerSettings(slots=3).slots == 3
    assert WorkerSettings().slots != 77


def test_settings_do_not_change() -> None:
    settings = WorkerSettings()
    with pytest.raises(ValidationError):
        settings.slots = 3  # pyright: ignore[reportAttributeAccessIssue] - which is the point


def test_a_coordinator_is_called_by_its_host_and_something_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.config.coordinator.host_name", lambda: "here")
    one, other = CoordinatorSettings().coordinator_id, CoordinatorSettings().coordinator_id
    assert one.startswith("here-")
    assert one != other


def test_queue_places_follow_the_slots() -> None:
    assert WorkerSettings(slots=7).queue_places == 14
    assert WorkerSettings(slots=7, queue_places=0).queue_places == 0


def test_the_memory_of_a_query_follows_memory_and_slots() -> None:
    settings = WORKER(slots=4, memory_bytes=16 * GIB)
    leaves = settings.section(LeafSettings)
    assert settings.duckdb_memory_bytes == leaves.leaf_memory_bytes == 2 * GIB
    assert leaves.sample_memory_bytes == 2 * GIB


def test_the_lake_is_beside_the_coordinators_folder_unless_told_otherwise(tmp_path: Path) -> None:
    settings = COORDINATOR(data_dir=tmp_path / "crew" / "coordinator")
    assert settings.database_url == str(tmp_path / "crew" / "lake" / "catalog.db")
    assert settings.section(MetricsSettings).lake_url == str(tmp_path / "crew" / "lake" / "segments")
    assert Path(COORDINATOR().section(MetricsSettings).lake_url).is_absolute()
    named = COORDINATOR.model_validate({"metrics": {"lake_url": "s3://lake/x"}})
    assert named.section(MetricsSettings).lake_url == "s3://lake/x"


@pytest.mark.parametrize(
    "name, given, taken",
    [
        ("disk_limit_bytes", "30GiB", 30 * GIB),
        ("disk_limit_bytes", 30 * GIB, 30 * GIB),
        ("disk_limit_bytes", "30 gb", 30 * 1000**3),
        ("artifact_floor_bytes", "0", 0),
        ("drain_max_s", "0.5", 0.5),
        ("drain_max_s", 3, 3.0),
        ("insecure", "true", True),
        ("log_level", " Debug ", "debug"),
        ("log_format", "JSON", "json"),
        ("http_host", "[::1]", "::1"),
        ("control_listen", "[::1]:7071", "[::1]:7071"),
        ("advertise_url", "http://w1:7072/", "http://w1:7072"),
        ("advertise_url", "HTTP://w1:7072/behind/a/proxy/", "http://w1:7072/behind/a/proxy"),
        ("advertise_url", "https://[::1]:7072", "https://[::1]:7072"),
        ("advertise_url", "http://b\u00fccher.example:1", "http://xn--bcher-kva.example:1"),
        ("recruiter.urls", "http://a:1/, https://b/path", ("http://a:1", "https://b/path")),
        ("recruiter.labels", "big, fast", ("big", "fast")),
        ("recruiter.labels", "", ()),
        ("tenant", " acme ", "acme"),
        ("data_dir", "~/data", Path.home() / "data"),
        ("slots", "8", 8),
        ("slots", 8.0, 8),
    ],
)
def test_a_value_may_be_written_in_several_ways(name: str, given: Any, taken: object) -> None:
    settings = WORKER.model_validate(nested(name, given))
    assert attrgetter(name)(settings) == taken


@pytest.mark.parametrize(
    "name, given",
    [
        ("slots", True),
        ("slots", 0),
        ("slots", 1.5),
        ("slots", ""),
        ("http_port", -1),
        ("http_port", 65536),
        ("drain_max_s", "10s"),
        ("drain_max_s", float("inf")),
        ("drain_max_s", float("nan")),
        ("drain_max_s", -1),
        ("drain_max_s", False),
        ("heartbeat_interval_s", 0),
        ("disk_high_watermark", 0),
        ("disk_high_watermark", 1.01),
        ("disk_high_watermark", float("nan")),
        ("disk_limit_bytes", 0),
        ("disk_limit_bytes", "10G"),
        ("disk_limit_bytes", "-1GiB"),
        ("disk_limit_bytes", True),
        ("disk_limit_bytes", 1.5),
        ("disk_limit_bytes", "0.3B"),
        ("tenant", " "),
        ("tenant", 42),
        ("tenant", True),
        ("kinds", []),
        ("kinds", "scan, Leaf"),
        ("join", "localhost"),
        ("join", "localhost:port"),
        ("join", "::1:7071"),
        ("join", "localhost:65536"),
        ("join", "http://localhost:7071"),
        ("join", [7071]),
        ("http_host", ""),
        ("http_host", "localhost:80"),
        ("http_host", "http://localhost"),
        ("http_host", 127),
        ("recruiter.urls", "a:1"),
        ("recruiter.labels", [""]),
        ("recruiter.poll_s", 3601),
        ("recruiter.poll_s", float("nan")),
        ("advertise_url", "w1:7072"),
        ("advertise_url", "http://"),
        ("advertise_url", "http://w1:x"),
        ("advertise_url", "http://w1:0"),
        ("advertise_url", "http://user:secret@w1"),
        ("advertise_url", "http://w1/?a=b"),
        ("advertise_url", "http://w1/a b"),
        ("advertise_url", "http://w1/#here"),
        ("advertise_url", "http://w~1:7072"),
        ("advertise_url", "http://[fe80::1%25eth0]:7072"),
        ("advertise_url", "http://w1/\u00fc"),
        ("advertise_url", "http://w1:99999"),
        ("worker_id", "w" * 251),
        ("worker_id", "w\n1"),
        ("node", "\x1b[2J"),
        ("log_level", "loud"),
        ("log_format", "xml"),
        ("insecure", "perhaps"),
        ("tls_key", 3),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, given: Any) -> None:
    process = COORDINATOR if name in CoordinatorSettings.model_fields and name != "http_host" else WORKER
    with pytest.raises(ValidationError) as refused:
        process.model_validate(nested(name, given))
    wrong = [detail["loc"] for detail in refused.value.errors() if "default_factory" not in detail["type"]]
    assert {".".join(map(str, where[: len(name.split("."))])) for where in wrong} == {name}


@pytest.mark.parametrize(
    "values, rule",
    [
        ({"warn_after_missed": 3}, "warn_after_missed must be below lost_after_missed"),
        ({"fetch_stall_timeout_s": 61}, "fetch_stall_timeout_s must not be above fetch_timeout_s"),
        ({"fetch_memory_bytes": "11GiB"}, "fetch_memory_bytes must not be above spool_limit_bytes"),
        ({"http_port": 7071}, "two servers cannot share an address and a port"),
        ({"reconnect_first_s": 6}, "reconnect_first_s must not be above reconnect_max_s"),
        ({"tls_key": "key"}, "TLS takes all three files, or none"),
        ({"tls_key": "key", "tls_certificate": "certificate"}, "TLS takes all three files, or none"),
        (
            {"search": {"memory_bytes": "5GiB"}},
            "search.memory_bytes must not be above search.in_flight_bytes",
        ),
        ({"s3": {"endpoint": "http://s3.example"}}, "an endpoint without TLS takes s3.allow_http"),
        ({"s3": {"access_key_id": "me"}}, "a key takes its secret, and a secret its key"),
        ({"s3": {"secret_access_key": "me"}}, "a key takes its secret, and a secret its key"),
    ],
)
def test_a_coordinator_may_not_contradict_itself(values: dict[str, Any], rule: str) -> None:
    assert rules_broken(COORDINATOR, **values) == [rule]


@pytest.mark.parametrize(
    "values, rule",
    [
        ({"disk_low_watermark": 0.9}, "disk_low_watermark must be below disk_high_watermark"),
        ({"disk_limit_bytes": "1GiB"}, "artifact_floor_bytes must be below disk_limit_bytes"),
        ({"artifact_linger_s": 601}, "artifact_linger_s must not be above artifact_ttl_s"),
        ({"memory_bytes": 10, "duckdb_memory_bytes": 11}, "duckdb_memory_bytes must not be above memory_bytes"),
        (
            {"memory_bytes": 10, "metrics": {"leaf_memory_bytes": 11}},
            "metrics.leaf_memory_bytes must not be above memory_bytes",
        ),
        (
            {"memory_bytes": 10, "metrics": {"sample_memory_bytes": 11}},
            "metrics.sample_memory_bytes must not be above memory_bytes",
        ),
        ({"control_listen": "h:1", "join": "h:2"}, "a worker dials coordinators, or they dial it"),
        ({"control_listen": "h:1", "join_dns": "h:2"}, "a worker dials coordinators, or they dial it"),
        ({"recruiter": {"retry_first_s": 11}}, "recruiter.retry_first_s must not be above recruiter.retry_max_s"),
        (
            {"recruiter": {"urls": "http://a:1"}, "advertise_url": "http://w1/behind"},
            "roots reach a worker by host and port: advertise_url must not have a path",
        ),
        ({"join": []}, "a worker without any of them could reach no coordinator, and none could reach it"),
        (
            {"http_host": "0.0.0.0"},
            "coordinators cannot fetch from 0.0.0.0: set advertise_url to what they reach it by",
        ),
    ],
)
def test_a_worker_may_not_contradict_itself(values: dict[str, Any], rule: str) -> None:
    assert rules_broken(WORKER, **values) == [rule]


def test_all_contradictions_are_told_at_once() -> None:
    assert len(rules_broken(WorkerSettings, disk_low_watermark=1, reconnect_first_s=99, join=[])) == 3


@pytest.mark.parametrize(
    "process, values",
    [
        (CoordinatorSettings, {"http_port": 0, "control_port": 0}),
        (CoordinatorSettings, {"http_port": 7071, "control_host": "::1"}),
        (CoordinatorSettings, {"tls_key": "a", "tls_certificate": "b", "tls_authority": "c"}),
        (CoordinatorSettings, {"s3": {"endpoint": "http://s3.example", "allow_http": True}}),
        (CoordinatorSettings, {"s3": {"access_key_id": "a", "secret_access_key": "b"}}),
        (WorkerSettings, {"control_listen": "127.0.0.1:7072"}),
        (WorkerSettings, {"control_listen": "127.0.0.1:7072", "join": []}),
        (WorkerSettings, {"join": [], "join_dns": "coordinators:7071"}),
        (WorkerSettings, {"http_host": "0.0.0.0", "advertise_url": "http://w1:7072"}),
        (WorkerSettings, {"artifact_linger_s": 600, "disk_high_watermark": 1}),
    ],
)
def test_what_looks_like_a_contradiction_and_is_none_is_taken(
    process: type[ProcessSettings], values: dict[str, Any]
) -> None:
    process(**values)


def test_secrets_are_shown_to_the_client_of_s3_alone() -> None:
    settings = WorkerSettings(s3=S3Settings.model_validate({"access_key_id": "me", "secret_access_key": "hunter2"}))
    assert "hunter2" not in f"{settings!r} {settings.model_dump_json()}"
    assert settings.s3.options()["secret_access_key"] == "hunter2"
    assert settings.s3.options()["max_retries"] == 4


def test_the_password_of_the_database_is_not_in_a_settings_repr() -> None:
    settings = CoordinatorSettings(database_url="postgresql://me:hunter2@db/q")
    assert "hunter2" not in f"{settings!r} {settings}"
    assert settings.database_url == "postgresql://me:hunter2@db/q"


def every_setting() -> list[Any]:
    processes = every_process(CAPABILITIES)
    sections = {section for process in processes for section in sections_of(process).values()}
    models: list[type[BaseModel]] = [*processes, *sorted(sections, key=lambda one: one.__name__), S3Settings]
    return [
        pytest.param(name, field, id=f"{model.__name__}.{name}")
        for model in models
        for name, field in model.model_fields.items()
    ]


@pytest.mark.parametrize("name, field", every_setting())
def test_every_setting_says_what_it_means_and_what_is_allowed(name: str, field: Any) -> None:
    assert allowed(field)
    meaning = " ".join(field.description.split())
    assert meaning.endswith(".")
    if name.endswith("_s"):
        assert "econds" in meaning
    if name.endswith(("_s", "_bytes", "_missed", "_watermark", "_at_once", "slots", "_places", "_works")):
        assert "oo high" in meaning or "ore than" in meaning
