"""A process's own folder: one process at a time, and an identity that outlives restarts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.data_folder import DataFolder, who_compiles

HOLD = """
import sys
from pathlib import Path
from quarterdeck.stores.data_folder import DataFolder
with DataFolder(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_folder_that_another_process_has_is_refused_by_naming_that_process(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(QuarterdeckError, match=f"process {holder.pid} has it") as caught, DataFolder(tmp_path):
            pass
        assert caught.value.code is ErrorCode.UNAVAILABLE
        holder.kill()
    with DataFolder(tmp_path):
        pass  # nothing stale is left by a process that was killed


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuarterdeckError, match="file/inside"), DataFolder(tmp_path / "file" / "inside"):
        pass


def test_a_process_keeps_its_name_and_each_start_has_a_higher_number(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        name, first = folder.begin_incarnation(None, "anne")
    with DataFolder(tmp_path) as folder:
        again, second = folder.begin_incarnation(None, "mary")
    assert (name, again) == ("anne", "anne")
    assert second > first


def test_a_name_that_is_given_counts_more_than_the_one_before(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.begin_incarnation(None, "anne")
        assert folder.begin_incarnation("mary", "otherwise")[0] == "mary"
        assert folder.begin_incarnation(None, "otherwise")[0] == "mary"


def test_the_number_rises_also_when_the_clock_went_backwards(tmp_path: Path) -> None:
    far_ahead = 10**15
    (tmp_path / "identity.json").write_text(json.dumps({"name": "anne", "incarnation": far_ahead}))
    with DataFolder(tmp_path) as folder:
        assert folder.begin_incarnation(None, "anne") == ("anne", far_ahead + 1)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"name": "a", "incarnation": "x"}'])
def test_an_identity_that_cannot_be_read_is_an_error_and_not_a_new_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "identity.json").write_text(content)
    with DataFolder(tmp_path) as folder, pytest.raises(QuarterdeckError, match="cannot be read"):
        folder.begin_incarnation(None, "anne")


def test_a_process_says_that_it_compiles_until_it_announces_where_it_is(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        assert who_compiles(tmp_path) is None
        folder.say_compiling()
        assert who_compiles(tmp_path) == os.getpid()
        folder.announce(http="http://127.0.0.1:1")
        assert who_compiles(tmp_path) is None
        folder.say_compiling()
    assert who_compiles(tmp_path) is None


def test_what_a_killed_process_said_of_compiling_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "compiling.json").write_text('{"pid": 1}')
    with DataFolder(tmp_path):
        assert who_compiles(tmp_path) is None
