"""Settings that a process hands to another, past its command line."""

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from quarterdeck.command import app
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.local_crew.handed_settings import MAX_BYTES, OPTION, handed_over, taken_over

SETTINGS = ["s3.secret_access_key=hunter2", 'node=\u00fc=\n"', "odd=\udcff"]


def test_what_is_handed_over_is_taken_over_once() -> None:
    with handed_over(SETTINGS) as descriptor:
        inherited = os.dup(descriptor)
        assert taken_over(inherited) == SETTINGS
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(inherited)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_process_that_was_handed_nothing_has_nothing() -> None:
    assert taken_over(None) == []


def test_the_file_has_no_name_and_goes_to_nobody_who_was_not_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_allowed(_name: str) -> int:
        raise PermissionError

    for allowed in (True, False):
        if not allowed:
            monkeypatch.setattr(os, "memfd_create", not_allowed, raising=False)
        with handed_over(SETTINGS) as descriptor:
            assert os.fstat(descriptor).st_nlink == 0
            assert not os.get_inheritable(descriptor)
            assert taken_over(os.dup(descriptor)) == SETTINGS


def test_too_much_is_an_error_that_repeats_nothing() -> None:
    with pytest.raises(QuarterdeckError) as caught, handed_over(["a=" + "hunter2" * MAX_BYTES]):
        pass
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "hunter2" not in str(caught.value)
    assert "--config" in caught.value.next_step
    with handed_over(["a=" + "x" * (MAX_BYTES - 6)]) as descriptor:
        assert len(taken_over(os.dup(descriptor))[0]) == MAX_BYTES - 4


@pytest.mark.parametrize("written", [b"", b"not JSON", b"{}", b"[1]", b"\xff", b"[]" + b" " * MAX_BYTES])
def test_what_is_not_from_us_is_an_error_of_use(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "file").write_bytes(written)
    with pytest.raises(typer.BadParameter):
        taken_over(os.open(tmp_path / "file", os.O_RDONLY))


def test_a_descriptor_that_is_none_is_an_error_of_use() -> None:
    result = CliRunner().invoke(app, ["worker", OPTION, "987"])
    assert result.exit_code == 65
    assert OPTION in result.stderr


@pytest.mark.parametrize("command", ["coordinator", "worker", "recruiter"])
def test_settings_that_were_handed_over_count_as_those_of_the_command_line(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"QUARTERDECK_{command.upper()}_LOG_LEVEL", "quiet")
    for own, value in (([], "loud"), (["--set", "log_level=deafening"], "deafening")):
        with handed_over(["log_level=loud"]) as descriptor:
            result = CliRunner().invoke(app, [command, OPTION, str(os.dup(descriptor)), *own])
        assert result.exit_code == 65, result.stderr
        assert f"{command}.log_level is '{value}' (the command line)" in result.stderr


def test_the_option_is_not_for_people() -> None:
    for command in ("coordinator", "worker", "recruiter"):
        assert OPTION not in CliRunner().invoke(app, [command, "--help"]).stdout
