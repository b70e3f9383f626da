"""Where settings come from, which of them counts, and how mistakes are told."""

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.config import CoordinatorSettings, InvalidSettingsError
from quarterdeck.config.section import find_field, former_names
from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.settings import LeafSettings, MetricsSettings
from quarterdeck.reference import every_process
from quarterdeck.search.settings import SearchSettings

Write = Callable[[str], Path]

KNOWN = configuration(CAPABILITIES)
load_coordinator, load_worker = KNOWN.load_coordinator, KNOWN.load_worker


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "quarterdeck.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def problems_of_worker(config: Path | None = None, flags: Mapping[str, object] | None = None) -> list[str]:
    with pytest.raises(InvalidSettingsError) as refused:
        load_worker(config, flags or {})
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    return [str(problem) for problem in refused.value.problems]


# Which one counts


def test_without_anything_there_are_the_defaults() -> None:
    settings = load_coordinator(None, {})
    assert (settings.http_host, settings.http_port, settings.control_port) == ("127.0.0.1", 7070, 7071)
    assert settings.spool_limit_bytes == 10 * 1024**3
    assert load_worker(None, {}).join == ("127.0.0.1:7071",)


def test_a_file_counts_before_the_defaults(write: Write) -> None:
    path = write("coordinator:\n  http_port: 1\n  workers: [a:1, '[::1]:2']\n")
    settings = load_coordinator(path, {})
    assert (settings.http_port, settings.control_port) == (1, 7071)
    assert settings.workers == ("a:1", "[::1]:2")


def test_the_environment_counts_before_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_HTTP_PORT", "2")
    settings = load_coordinator(write("coordinator: {http_port: 1, control_port: 5}"), {})
    assert (settings.http_port, settings.control_port) == (2, 5)


def test_a_flag_counts_before_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_HTTP_PORT", "2")
    assert load_coordinator(write("coordinator: {http_port: 1}"), {"http_port": 3}).http_port == 3


PLACES = ("data_dir", "source_roots", "token_file")


def _places(settings: CoordinatorSettings) -> list[str]:
    return [str(settings.data_dir), settings.source_roots[0], str(settings.token_file)]


@pytest.mark.parametrize("text", ["away/../here", "here", "../place/here", "~/here"])
@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_a_path_is_made_whole_wherever_it_comes_from(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, source: str, text: str
) -> None:
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("HOME", str(tmp_path / "place"))
    config = None
    flags: dict[str, object] = {}
    match source:
        case "flag":
            flags = {**dict.fromkeys(PLACES, text), "metrics": {"lake_url": text}}
        case "environment":
            for name in PLACES:
                monkeypatch.setenv(f"QUARTERDECK_COORDINATOR_{name.upper()}", text)
            monkeypatch.setenv("QUARTERDECK_COORDINATOR_METRICS__LAKE_URL", text)
        case _:
            config = write(
                "coordinator:\n"
                + "".join(f"  {name}: {text}\n" for name in PLACES)
                + f"  metrics: {{lake_url: {text}}}"
            )
    here = tmp_path / "place" / "here"
    settings = load_coordinator(config, flags)
    assert _places(settings) == [str(here)] * len(PLACES)
    assert settings.section(MetricsSettings).lake_url == str(here)
    assert Path(settings.database_url) == tmp_path / "place" / "lake" / "catalog.db"


def test_a_url_that_goes_above_its_bucket_is_told_before_the_start(write: Write) -> None:
    with pytest.raises(InvalidSettingsError, match=r"coordinator\.metrics\.lake_url is 's3://bucket/a/\.\./b'"):
        load_coordinator(write("coordinator: {metrics: {lake_url: 's3://bucket/a/../b'}}"), {})


def test_flags_that_were_not_given_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS", "2")
    settings = load_worker(None, {"slots": None, "join": [], "join_dns": ()})
    assert (settings.slots, settings.join) == (2, ("127.0.0.1:7071",))


def test_a_flag_that_is_zero_or_false_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_INSECURE", "true")
    monkeypatch.setenv("QUARTERDECK_WORKER_HTTP_PORT", "7")
    settings = load_worker(None, {"insecure": False, "http_port": 0})
    assert (settings.insecure, settings.http_port) == (False, 0)


def test_each_process_reads_its_own_section_and_variables(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_LOG_LEVEL", "error")
    path = write("worker: {log_level: debug}\n")
    assert load_coordinator(path, {}).log_level == "error"
    assert load_worker(path, {}).log_level == "debug"


def test_what_lies_below_a_setting_is_put_together_from_all_sources(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_S3__REGION", "north")
    monkeypatch.setenv("QUARTERDECK_WORKER_S3__MAX_RETRIES", "9")
    path = write("worker:\n  s3:\n    region: south\n    endpoint: https://s3.example\n")
    s3 = load_worker(path, {"s3": {"max_retries": 1}}).s3
    assert (s3.region, s3.endpoint, s3.max_retries) == ("north", "https://s3.example", 1)


def test_the_environment_may_name_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_CONFIG", str(write("worker: {slots: 3}")))
    assert load_worker(None, {}).slots == 3


def test_a_flag_names_the_file_before_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_CONFIG", "/nowhere.yaml")
    assert load_worker(write("worker: {slots: 3}"), {}).slots == 3


@pytest.mark.parametrize("text", ["", "# nothing\n", "worker:\n", "coordinator: {http_port: 1}\n"])
def test_a_file_may_say_nothing_of_a_process(write: Write, text: str) -> None:
    assert load_worker(write(text), {}) == load_worker(None, {})


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS", "")
    monkeypatch.setenv("QUARTERDECK_CONFIG", "")
    assert load_worker(None, {}).slots >= 1


def test_a_list_in_a_variable_has_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_JOIN", "a:1, [::1]:2 ,")
    monkeypatch.setenv("QUARTERDECK_WORKER_KINDS", "leaf,scan")
    settings = load_worker(None, {})
    assert settings.join == ("a:1", "[::1]:2")
    assert settings.kinds == ("leaf", "scan")


def test_a_variable_may_be_written_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("quarterdeck_worker_slots", "3")
    assert load_worker(None, {}).slots == 3


def test_what_kubernetes_puts_into_the_environment_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "7070",
        "SERVICE_PORT_HTTP": "7070",
        "PORT": "tcp://10.0.0.1:7070",
        "PORT_7070_TCP": "tcp://10.0.0.1:7070",
        "PORT_7070_TCP_PROTO": "tcp",
        "PORT_7070_TCP_ADDR": "10.0.0.1",
        "HTTP_PORT": "tcp://10.0.0.1:7070",
        "HTTP_SERVICE_HOST": "10.0.0.1",
    }.items():
        monkeypatch.setenv(f"QUARTERDECK_COORDINATOR_{name}", value)
    assert load_coordinator(None, {}).http_port == 7070


# How mistakes are told


def test_a_wrong_value_in_a_file_is_told_with_its_line(write: Write) -> None:
    path = write("worker:\n  tenant: a\n  slots: none\n")
    assert problems_of_worker(path) == [f"worker.slots is 'none' ({path}, line 3); allowed is a whole number from 1"]


def test_a_wrong_value_in_the_environment_is_told_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_HTTP_PORT", "70000")
    assert problems_of_worker() == [
        (
            "worker.http_port is '70000' (the environment variable QUARTERDECK_WORKER_HTTP_PORT); "
            "allowed is a port from 0 to 65535, where 0 takes a free one"
        )
    ]


def test_a_wrong_value_of_a_flag_is_told_as_such() -> None:
    assert problems_of_worker(flags={"disk_limit_bytes": "10G"}) == [
        (
            "worker.disk_limit_bytes is '10G' (the command line); "
            "allowed is a size above 0: bytes, or a text such as 512MiB, 10GiB, 2TB"
        )
    ]


def test_a_wrong_item_of_a_list_is_told_with_its_place(write: Write) -> None:
    path = write("worker:\n  join: [a:1, b]\n")
    (problem,) = problems_of_worker(path)
    assert problem.startswith(f"worker.join[1] is 'b' ({path}, line 2); allowed is a list of HOST:PORT")


@pytest.mark.parametrize(
    "site", ["tools.example", "https://tools.example/", '["https://tools.example"]', "https://", "https://a.example/x"]
)
def test_a_site_that_no_browser_would_name_is_refused(monkeypatch: pytest.MonkeyPatch, site: str) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_HTTP_ORIGINS", site)
    (problem,) = problems_of_worker()
    assert "allowed is a list of sites such as https://tools.example" in problem


def test_sites_are_taken_as_browsers_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = "HTTPS://Tools.Example, https://*.example:*, http://[::1]:80, *, null"
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_HTTP_ORIGINS", sites)
    taken = ("https://tools.example", "https://*.example:*", "http://[::1]:80", "*", "null")
    assert load_coordinator(None, {}).http_origins == taken


def test_a_wrong_value_below_a_setting_is_told_with_both_names(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_S3__MAX_RETRIES", "-1")
    path = write("worker:\n  s3:\n    endpoint: ftp://x\n")
    first, second = problems_of_worker(path)
    assert first.startswith(f"worker.s3.endpoint is 'ftp://x' ({path}, line 3)")
    assert second.startswith(
        "worker.s3.max_retries is '-1' (the environment variable QUARTERDECK_WORKER_S3__MAX_RETRIES)"
    )


def test_the_value_that_counts_is_the_one_that_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS", "0")
    (problem,) = problems_of_worker(write("worker: {slots: 5}"))
    assert "is '0' (the environment variable" in problem


def test_an_unknown_key_is_told_with_what_was_meant(write: Write) -> None:
    path = write("worker:\n  slot: 5\n  zebra: 1\n  s3: {regoin: x}\n")
    assert sorted(problems_of_worker(path)) == [
        f"worker.s3.regoin is not a setting ({path}, line 4); did you mean region?",
        f"worker.slot is not a setting ({path}, line 2); did you mean slots?",
        f"worker.zebra is not a setting ({path}, line 3)",
    ]


def test_an_unknown_variable_is_told_with_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOT", "5")
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS__MORE", "5")
    monkeypatch.setenv("QUARTERDECK_WORKER_S3__REGOIN", "x")
    assert problems_of_worker() == [
        "the environment variable QUARTERDECK_WORKER_SLOT is not a setting of the worker; did you mean SLOTS?",
        "the environment variable QUARTERDECK_WORKER_SLOTS__MORE is not a setting of the worker; did you mean SLOTS?",
        (
            "worker.s3.regoin is not a setting (the environment variable QUARTERDECK_WORKER_S3__REGOIN)"
            "; did you mean region?"
        ),
    ]


def test_an_unknown_flag_is_told() -> None:
    assert problems_of_worker(flags={"slotz": 1}) == [
        "worker.slotz is not a setting (the command line); did you mean slots?"
    ]


def test_an_unknown_section_is_told(write: Write) -> None:
    path = write("wroker: {slots: 1}\n")
    assert problems_of_worker(path) == [
        f"wroker is not a section ({path}, line 1); there are coordinator, worker and recruiter"
    ]


def test_a_key_that_stands_twice_is_told_with_both_lines(write: Write) -> None:
    path = write("worker:\n  slots: 1\n  tenant: a\n  slots: 2\n")
    assert problems_of_worker(path) == [f"worker.slots appears twice in {path}, in lines 2 and 4"]


def test_a_section_that_is_none_is_told(write: Write) -> None:
    path = write("worker: 3\n")
    assert problems_of_worker(path) == [f"worker is a single value ({path}, line 1); it takes settings below it"]
    path = write("worker: [s3: {secret_access_key: hunter2}]\n")
    assert problems_of_worker(path) == [f"worker is a list ({path}, line 1); it takes settings below it"]


def test_a_group_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_S3", '{"region": "x"}')
    (problem,) = problems_of_worker()
    assert problem.startswith("worker.s3 is not shown here (the environment variable QUARTERDECK_WORKER_S3)")


@pytest.mark.parametrize(
    "text, why",
    [
        ("- a\n", "it has no sections"),
        ("just text", "it has no sections"),
        ("worker: [", "while parsing"),
        ("a: b: c", "mapping values are not allowed here"),
        ("worker: !!python/object:os.system {}", "could not determine a constructor"),
    ],
)
def test_a_file_that_is_no_configuration_is_told(write: Write, text: str, why: str) -> None:
    path = write(text)
    (problem,) = problems_of_worker(path)
    assert problem.startswith(f"the file {path} cannot be read: ")
    assert why in problem


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.yaml"
    assert problems_of_worker(missing) == [f"the file {missing} cannot be read: No such file or directory"]
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xff")
    assert problems_of_worker(binary) == [f"the file {binary} cannot be read: it is not text in UTF-8"]


def test_a_file_that_refers_to_itself_does_no_harm(write: Write) -> None:
    problems = problems_of_worker(write("worker: &w\n  s3: *w\n"))
    assert any("worker.s3.s3 is not a setting" in problem for problem in problems)


def test_anchors_may_be_used(write: Write) -> None:
    path = write("coordinator: &both {log_level: debug}\nworker:\n  <<: *both\n  slots: 2\n")
    assert load_worker(path, {}).log_level == "debug"


def test_all_mistakes_are_told_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_SLOTS", "x")
    path = write("worker: {slot: 1, tenant: 42}\n")
    with pytest.raises(InvalidSettingsError) as refused:
        load_worker(path, {"http_port": -1})
    assert len(refused.value.problems) == 4
    message = str(refused.value)
    assert "\n" not in message
    assert all(f"({number}) " in message for number in range(1, 5))
    assert "docs/configuration.md" in message


def test_a_secret_is_not_repeated(write: Write) -> None:
    path = write("worker:\n  s3:\n    secret_access_key: [hunter2]\n")
    (problem,) = problems_of_worker(path)
    assert "hunter2" not in problem
    path = write("worker:\n  s3:\n    secret_access_key: hunter2\n")
    (problem,) = problems_of_worker(path)
    assert "hunter2" not in problem
    assert f"s3.secret_access_key is set ({path}, line 3)" in problem


def test_a_group_with_secrets_in_it_is_not_repeated(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = problems_of_worker(write("worker:\n  s3: [secret_access_key, hunter2]\n"))
    assert "hunter2" not in problem
    monkeypatch.setenv("QUARTERDECK_WORKER_S3", '{"secret_access_key": "hunter2"}')
    (problem,) = problems_of_worker()
    assert "hunter2" not in problem


@pytest.mark.parametrize("name", ["advertise_url", "recruiter.urls"])
@pytest.mark.parametrize("password", ["hunter2", "hunter@2", "hunter:2/"])
def test_a_password_in_a_wrong_url_is_not_repeated(name: str, password: str) -> None:
    url = f"http://me:{password}@worker-1:7072"
    (problem,) = problems_of_worker(flags={"recruiter": {"urls": url}} if name == "recruiter.urls" else {name: url})
    assert "hunter" not in problem
    assert "'http://me:***@worker-1:7072' (the command line)" in problem


def test_a_wrong_url_of_the_database_is_not_repeated(write: Write) -> None:
    path = write("coordinator:\n  database_url: [postgresql://me:hunter2@db/q]\n")
    with pytest.raises(InvalidSettingsError) as caught:
        load_coordinator(path, {})
    assert "database_url is not shown here" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "secret", ['"hunter2', "*hunter2", "!hunter2 x", "%hunter2", "hunter2: hunter2", "[hunter2", "\ahunter2"]
)
def test_a_file_that_is_no_yaml_is_told_without_what_stands_in_it(write: Write, secret: str) -> None:
    (problem,) = problems_of_worker(write(f"worker:\n  s3:\n    secret_access_key: {secret}\n"))
    assert "cannot be read: " in problem
    assert "hunter2" not in problem


def test_a_long_wrong_value_is_not_repeated_whole() -> None:
    (problem,) = problems_of_worker(flags={"slots": "x" * 1000})
    assert len(problem) < 250


def test_a_contradiction_names_both_sides_and_their_origins(write: Write) -> None:
    path = write("worker:\n  disk_low_watermark: 0.95\n")
    assert problems_of_worker(path) == [
        (
            "worker has a contradiction: disk_low_watermark must be below disk_high_watermark; "
            f"disk_low_watermark is 0.95 ({path}, line 2), disk_high_watermark is left at its default"
        )
    ]


def test_the_error_can_be_copied_and_sent_to_another_process() -> None:
    with pytest.raises(InvalidSettingsError) as refused:
        load_worker(None, {"slots": 0})
    for again in (copy.copy(refused.value), pickle.loads(pickle.dumps(refused.value))):
        assert str(again) == str(refused.value)
        assert again.problems == refused.value.problems


# The sections of capabilities


def test_a_setting_that_moved_into_a_section_is_refused_with_its_new_name_wherever_it_stands(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("worker:\n  leaf_threads: 2\n")
    assert problems_of_worker(path) == [
        f"worker.leaf_threads is called worker.metrics.leaf_threads now ({path}, line 2)"
    ]
    path.write_text("")
    assert problems_of_worker(flags={"recruiters": "http://a:1"}) == [
        "worker.recruiters is called worker.recruiter.urls now (the command line)"
    ]
    monkeypatch.setenv("QUARTERDECK_WORKER_RECRUIT_LABELS", "big")
    assert problems_of_worker() == [
        "the environment variable QUARTERDECK_WORKER_RECRUIT_LABELS is called QUARTERDECK_WORKER_RECRUITER__LABELS now"
    ]


def test_the_command_line_may_call_a_setting_as_errors_and_files_call_it() -> None:
    flags = {
        "worker": {"metrics": {"leaf_threads": "2"}, "slots": "3"},
        "metrics": {"leaf_threads": 9, "leaf_memory_bytes": "1MiB"},
        "slots": 1,
    }
    settings = load_worker(None, flags)
    leaves = settings.section(LeafSettings)
    assert (leaves.leaf_threads, leaves.leaf_memory_bytes, settings.slots) == (2, 1024**2, 3)
    assert problems_of_worker(flags={"worker": {"slotz": 1}}) == [
        "worker.slotz is not a setting (the command line); did you mean slots?"
    ]
    assert problems_of_worker(flags={"worker": "3"}) == [
        "worker.worker is not a setting (the command line); did you mean worker_id?"
    ]


def test_every_former_name_leads_to_a_setting_that_there_is() -> None:
    for process in every_process(CAPABILITIES):
        for old, names in former_names(process).items():
            assert find_field(process, (old,)) is None
            assert find_field(process, names) is not None, f"{old} is said to be {names} now"


def test_a_section_is_put_together_from_all_sources(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_METRICS__QUERIES_AT_ONCE", "7")
    monkeypatch.setenv("QUARTERDECK_COORDINATOR_SEARCH__RECRUITERS", "http://a:1, http://b:2")
    path = write("coordinator:\n  metrics: {queries_at_once: 5, query_timeout_s: 9}\n")
    settings = load_coordinator(path, {"metrics": {"query_work_rows": "3"}})
    metrics = settings.section(MetricsSettings)
    assert (metrics.queries_at_once, metrics.query_timeout_s, metrics.query_work_rows) == (7, 9, 3)
    assert metrics.model_fields_set == {"queries_at_once", "query_timeout_s", "query_work_rows"}
    assert settings.section(SearchSettings).recruiters == ("http://a:1", "http://b:2")


def test_mistakes_in_a_section_are_told_with_its_name_beside_those_of_the_process(write: Write) -> None:
    path = write("worker:\n  slots: none\n  metrics:\n    leaf_threads: 0\n    leaf_thread: 1\n")
    assert problems_of_worker(path) == [
        f"worker.slots is 'none' ({path}, line 2); allowed is a whole number from 1",
        f"worker.metrics.leaf_threads is 0 ({path}, line 4); allowed is a whole number from 1",
        f"worker.metrics.leaf_thread is not a setting ({path}, line 5); did you mean leaf_threads?",
    ]


def test_a_section_that_is_none_is_told_as_such(write: Write) -> None:
    path = write("worker: {metrics: 3}\n")
    assert problems_of_worker(path) == [
        f"worker.metrics is 3 ({path}, line 1); allowed is settings of its own, by their names"
    ]


def test_a_contradiction_across_sections_is_told_with_both_names_and_where_each_came_from(write: Write) -> None:
    path = write("worker:\n  memory_bytes: 10\n  metrics: {leaf_memory_bytes: 11}\n")
    assert problems_of_worker(path) == [
        (
            "worker has a contradiction: metrics.leaf_memory_bytes must not be above memory_bytes; "
            f"metrics.leaf_memory_bytes is 11 ({path}, line 3), memory_bytes is 10 ({path}, line 2)"
        )
    ]


def test_a_process_without_a_capability_has_no_section_of_it(write: Write) -> None:
    alone = configuration(())
    with pytest.raises(InvalidSettingsError, match=r"coordinator\.metrics is not a setting"):
        alone.load_coordinator(write("coordinator: {metrics: {queries_at_once: 5}}"), {})
    with pytest.raises(LookupError, match="without the section metrics"):
        alone.load_coordinator(None, {}).section(MetricsSettings)
